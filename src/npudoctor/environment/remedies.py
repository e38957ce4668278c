"""A remedy of a single finding that was taken over: what is said of it, and how it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Finding

# Of what was asked for nothing is said.
SILENT = ("cann-env.", "library-path.", "aicpu-path.")
Changes = Mapping[str, Optional[str]]


@dataclass(frozen=True)
class AppliedRemedy:
    """What it changed, None for what is not set; the lines that say so."""

    before: Changes
    after: Changes
    said: tuple[str, ...]

    @staticmethod
    def of(finding: Finding, changes: Changes, variables: Mapping[str, str]) -> AppliedRemedy:
        """The remedy of this finding, for these variables."""
        lines: list[str] = []
        for name, value in () if finding.code.startswith(SILENT) else changes.items():
            text = _("{name} becomes {value}: {why}") if value is not None else _("{name} is unset: {why}")
            lines.append(text.format(name=name, value=value, why=finding.message))
        return AppliedRemedy({name: variables.get(name) for name in changes}, changes, tuple(lines))

    def undo(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables without it, where they are still as it left them."""
        result = dict(variables)
        for name, value in self.before.items():
            if result.get(name) == self.after[name]:
                result.pop(name, None)
                result.update({} if value is None else {name: value})
        return result
