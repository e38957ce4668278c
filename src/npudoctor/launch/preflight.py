"""The result of the check before a job, as data that is passed by a pipe or a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, field


@dataclass(frozen=True)
class Preflight:
    """The result of the check before a job. `line`: in one line; `text`: the whole report.

    `changes`: the values to set in the job's variables, None to unset; `before`: what they were, None: unset.
    `borrowed`: it is the answer of the first rank. `shared`: the file by which the other `ranks` get it, None
    when it is not shared; `at`: when it was written, seconds since boot (CLOCK_BOOTTIME).
    """

    verdict: str
    line: str
    text: str = ""
    notes: tuple[str, ...] = ()
    changes: Mapping[str, Optional[str]] = field(default_factory=dict)
    before: Mapping[str, Optional[str]] = field(default_factory=dict)
    borrowed: bool = False
    shared: Optional[str] = None
    at: float = 0.0
    ranks: Optional[int] = None

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values, for `preflight_from_json`."""
        return {**vars(self)}

    def is_for(self, variables: Mapping[str, str]) -> bool:
        """Whether the variables still have the values for which the changes were made."""
        return all(variables.get(name) == value for name, value in self.before.items())

    def apply(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables with the changes applied."""
        both = {**variables, **self.changes}
        return {name: value for name, value in both.items() if value is not None}


def preflight_from_json(data: Mapping[str, Any]) -> Preflight:
    """Decode an answer. Raises TypeError or KeyError when another version of npudoctor wrote it."""
    return Preflight(**{**data, "notes": tuple(data["notes"])})


def encode_line(data: Mapping[str, Any]) -> bytes:
    """One line of ASCII JSON; surrogate escapes of variables that are not UTF-8 survive."""
    return json.dumps(data).encode() + b"\n"
