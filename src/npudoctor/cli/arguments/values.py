"""Judges the values of single flags, by the same rules as files and variables."""

from __future__ import annotations

from typing import Any

from npudoctor.cli.settings.config import UsageError
from npudoctor.cli.settings.keys import KEYS, InvalidValue


def flag_value(key: str, value: object) -> Any:
    """A flag's value; its default when it was left out, Refused when it is wrong."""
    try:
        return KEYS[key].default if value is None else KEYS[key].parse(value, False)
    except InvalidValue as invalid:
        raise UsageError(f"--{key.replace('_', '-')}: {invalid}") from invalid
