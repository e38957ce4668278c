"""Checks of the CANN toolkit: its installation, its versions and the variables that lead to it."""
