"""How an action ends that did not do what it was asked for."""

from __future__ import annotations


class ActionRefused(Exception):
    """The guard of a step does not hold any more, or the rights do not suffice: nothing was changed."""


class AlreadyGone(Exception):
    """What was to be removed is not there any more, or what was to be changed is so already."""


class CommandFailed(Exception):
    """A program was started and failed. What it did before is unknown, so it counts as a change."""


class ActionFailed(Exception):
    """The action was tried and did not work; the reason is in our words."""
