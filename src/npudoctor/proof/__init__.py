"""What proves that a leftover is dead: rules over what the host saw, each with its reason."""
