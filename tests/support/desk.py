"""A folder with a file that may be written, a state directory of its own, and a fresh host for each look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from npudoctor.core.model import Step
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.outcome import Outcome
from npudoctor.fixing.steps.steps import WriteFile
from npudoctor.host import Host, Options
from npudoctor.host.records import Records
from npudoctor.host.users.identity import current_identity


class Desk:
    """Below `home`: the folder `etc` with the file `site.conf`, and the state directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.etc = home / "etc"
        self.etc.mkdir(mode=0o755)
        self.path = self.etc / "site.conf"
        self.state = home / "state"

    def host(self) -> Host:
        """A fresh look at the real machine."""
        records = Records(str(self.state), os.geteuid())
        return Host(Options(), identity=current_identity(), records=records)

    def write(self, content: str = "new\n", mode: int = 0o644) -> WriteFile:
        """The step that writes the file as it is now."""
        return WriteFile.at(self.host(), str(self.path), content, mode)

    def take(self, step: Step, **hooks: Any) -> Outcome:
        """Apply a step."""
        return apply_step(step, self.host(), **hooks)

    def content(self) -> Optional[bytes]:
        """What is in the file; None when it is missing."""
        return self.path.read_bytes() if self.path.exists() else None

    def names(self) -> list[str]:
        """All names in the folder."""
        return sorted(os.listdir(self.etc))
