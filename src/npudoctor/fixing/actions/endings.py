"""How an action ends that did not do what it was asked for."""

from __future__ import annotations


class Refused(Exception):
    """The guard does not hold any more, or the rights do not suffice: nothing was changed."""


class Gone(Exception):
    """What was to be removed is not there any more."""


class CommandFailed(Exception):
    """A program was started and failed. What it did before is not known, so it counts as a change."""


class Failed(Exception):
    """It was tried, and did not work; the reason is in our words."""
