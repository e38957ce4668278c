"""Reads a plain command line of `check`: loading typer takes as long as most checks together.

What is not plain (help, errors, abbreviations, values that look like options) is left to typer, so that there
is one grammar: a test compares the table with the options that typer has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

_NAMES = (
    "format output scope expect profile fail-on deadline timeout python root env-of source peers wait user"
    " job like color lang config"
)
VALUES = {f"--{name}": name.replace("-", "_") for name in _NAMES.split()}
LISTS = {"--ignore": "ignore"}
SWITCHES = {"-q": "quiet", "--quiet": "quiet"}
COUNTS = {"-v": "verbose", "--verbose": "verbose"}


def check_flags(argv: Sequence[str]) -> Optional[dict[str, Any]]:
    """The parameters of `check` as typer would tell them; None where typer must read the line itself."""
    if argv[:1] != ["check"]:
        return None
    flags: dict[str, Any] = dict.fromkeys(VALUES.values())
    flags.update(dict.fromkeys(("names", *LISTS.values()), ()))
    flags.update(dict.fromkeys(SWITCHES.values(), False))
    flags.update(dict.fromkeys(COUNTS.values(), 0))
    words = iter(argv[1:])
    for word in words:
        if word in SWITCHES:
            flags[SWITCHES[word]] = True
        elif word in COUNTS:
            flags[COUNTS[word]] += 1
        elif word == "-vv":
            flags["verbose"] += 2
        elif not word.startswith("-"):
            flags["names"] += (word,)
        else:
            option, _equal, value = word.partition("=")
            value = value if _equal else next(words, "")
            if not value or value.startswith("-"):
                return None
            if option in LISTS:
                flags[LISTS[option]] += (value,)
            elif option in VALUES and flags[VALUES[option]] is None:
                flags[VALUES[option]] = value
            else:
                return None
    return flags
