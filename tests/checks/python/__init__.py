"""Tests of the checks of the group python."""
