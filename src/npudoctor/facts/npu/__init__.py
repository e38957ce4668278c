"""What a job sees of the NPUs of a node. What the NPUs say of themselves is `host.devices`."""
