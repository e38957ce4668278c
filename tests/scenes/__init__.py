"""Machines that make checks speak, for the tests that need every finding and not one check's rules."""
