"""The machine apart from its accelerators: its limits, and what its site added to our tables."""
