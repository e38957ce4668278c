"""The result of the check before a job, as data that crosses a pipe or a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, field


@dataclass(frozen=True)
class Preflight:
    """`line` says it in one line, `text` in full. `changes`: what the job's variables are to become, None to
    unset; `before`: what they were. `borrowed`: it is the first rank's. `shared`: the file by which the other
    of the `ranks` get it, since `at` on the boot's clock."""

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
        """What `from_json` reads."""
        return {**vars(self)}

    def suits(self, variables: Mapping[str, str]) -> bool:
        """Whether the changes were made for variables like these."""
        return all(variables.get(name) == value for name, value in self.before.items())

    def apply(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables with the changes."""
        both = {**variables, **self.changes}
        return {name: value for name, value in both.items() if value is not None}


def from_json(data: Mapping[str, Any]) -> Preflight:
    """The answer decoded; TypeError when it was written by another version."""
    return Preflight(**{**data, "notes": tuple(data["notes"])})


def encode_line(data: Mapping[str, Any]) -> bytes:
    """One line of ASCII: variables that are no UTF-8 survive it."""
    return json.dumps(data).encode() + b"\n"
