"""The values of Python's own variables with which it does not start. Each was tried with 3.7 to 3.13."""

from __future__ import annotations

import codecs
from typing import Optional

from npudoctor import _

_ALLOCATORS = ("default", "malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "debug")
_MOST_SEED, _MOST_FRAMES, _LEAST_DIGITS = 4294967295, 65535, 640
NAMES = (
    *("PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONTRACEMALLOC"),
    *("PYTHONINTMAXSTRDIGITS", "PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"),
)


def valid(name: str, value: str, version: tuple[int, ...], free: bool) -> Optional[str]:
    """What Python wants instead of a value that is not empty; None where it starts with it.

    `free`: it is the build without the global lock.
    """
    number = int(value) if value.isascii() and value.isdigit() else None
    new = version >= (3, 13)
    if name == "PYTHONHASHSEED":
        right = value == "random" or (number is not None and number <= _MOST_SEED)
        wanted = _("'random' or a number up to {most}").format(most=_MOST_SEED)
    elif name == "PYTHONMALLOC":
        known = (*_ALLOCATORS, *(("mimalloc", "mimalloc_debug") if new else ()))
        right, wanted = value in known, ", ".join(known)
    elif name == "PYTHONUTF8":
        right, wanted = value in ("0", "1"), "0, 1"
    elif name == "PYTHONIOENCODING":
        right, wanted = _is_codec(value.partition(":")[0]), _("the name of an encoding, such as utf-8")
    elif name == "PYTHONTRACEMALLOC":
        right = number is not None and (number <= _MOST_FRAMES or version < (3, 9))
        wanted = _("a number up to {most}").format(most=_MOST_FRAMES)
    elif name == "PYTHONINTMAXSTRDIGITS":  # of the releases before 3.11 only the last ones read it
        right = number is not None and (number == 0 or number >= _LEAST_DIGITS)
        right, wanted = (
            right or version < (3, 11),
            _("0, or a number from {least}").format(least=_LEAST_DIGITS),
        )
    elif name == "PYTHON_CPU_COUNT":
        right, wanted = not new or value == "default" or bool(number), _("'default' or a number from 1")
    elif name == "PYTHON_FROZEN_MODULES":
        right, wanted = not new or value in ("on", "off"), "on, off"
    else:  # PYTHON_GIL
        right, wanted = not new or value == "1" or (free and value == "0"), "1"
    return None if right else wanted


def _is_codec(name: str) -> bool:
    try:
        return not name or codecs.lookup(name) is not None
    except (LookupError, ValueError):
        return False
