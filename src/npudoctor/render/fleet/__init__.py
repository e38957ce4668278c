"""Reports of many nodes: who is ready, what is wrong where, what differs between them."""
