"""Whether a step that others told (a journal, a foreign check) has the types that showing and acting need."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Union, get_type_hints

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODE = 0o777  # neither set-user-id nor anything that chmod does not know


def is_valid(step: object) -> bool:
    """Whether all fields are what their annotations say, and what a line is made of without quoting is
    no more than that."""
    if not _fits(step, type(step)):
        return False
    kind = type(step).__name__
    if kind == "Export":
        return _NAME.fullmatch(getattr(step, "name")) is not None  # noqa: B009  (of a type not imported)
    if kind == "WriteFile":
        return bool(0 <= getattr(step, "mode") <= _MODE)  # noqa: B009
    needed = {"Command": "argv", "SignalProcess": "processes"}.get(kind)
    return needed is None or bool(getattr(step, needed))


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = _hints(hint)
        return type(value) is hint and all(_fits(getattr(value, name), hints[name]) for name in hints)
    origin = getattr(hint, "__origin__", None)
    if origin is Union:
        return any(_fits(value, part) for part in hint.__args__)
    if origin is tuple:  # all of ours are of one type, of any number
        return isinstance(value, tuple) and all(_fits(part, hint.__args__[0]) for part in value)
    return type(value) is hint or (hint is float and type(value) is int)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)
