"""Runs npudoctor as a command of its own, far from this shell's settings, and writes drop-ins for it."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from tests.support.warm_start import run_warm

DROP_IN = '''
import os, signal, subprocess, sys, time
from npudoctor import *

{top}

@check({id!r}, scope=Scope.{scope}, codes={{"{id}.bad": ERROR, "{id}.odd": WARNING, "{id}.note": INFO}})
def question(host):
    """{title}.

    A manual.
    """
{body}
'''


def named(uid: int) -> bool:
    """Whether the machine has a name for a user id."""
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def heed_signals() -> None:
    """In a child: no ending signal is ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    def row(self, check: str) -> dict[str, Any]:
        """The one row of a check."""
        (row,) = [row for row in self.json["results"] if row["check"] == check]
        found: dict[str, Any] = row
        return found


class Npudoctor:
    """The command with a home and a directory of drop-ins of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.drop_ins = folder / "checks.d"
        self.home.mkdir()
        self.drop_ins.mkdir(mode=0o755)
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NPUDOCTOR_CHECKS_DIR": str(self.drop_ins),
        }
        if not named(os.geteuid()):  # CI asks as such a user too: `env` would say how to call him
            self.variables["USER"] = "somebody"

    def __call__(self, *arguments: str, **variables: Optional[str]) -> Done:
        """Run it to its end; variables that are None are left out."""
        environment = self.environment(variables)
        ended = run_warm(arguments, environment, str(self.folder), 60)
        if ended is not None:
            return Done(ended[0], ended[1].decode(), ended[2].decode())
        done = subprocess.run(
            self.argv(*arguments), env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def each(
        self,
        lines: Sequence[Sequence[str]],
        own: Sequence[Mapping[str, Optional[str]]] = (),
        **variables: Optional[str],
    ) -> list[Done]:
        """Run one line after another; `own`: more variables of each."""
        more: Sequence[Mapping[str, Optional[str]]] = own or [{}] * len(lines)
        return [self(*line, **{**variables, **one}) for line, one in zip(lines, more)]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start it; standard output and error are pipes unless `options` say otherwise.

        No signal is ignored, whatever these tests were started under: nohup and a shell's background
        ignore some, and npudoctor would go on ignoring them.
        """
        standard = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "preexec_fn": heed_signals,
        }
        return subprocess.Popen(
            self.argv(*arguments), env=self.environment({}), cwd=self.folder, **{**standard, **options}
        )

    def shell(self, line: str) -> Done:
        """Run a bash line in which "$@" is the command."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line, "bash", *self.argv()], env=self.environment({}),
            cwd=self.folder, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def argv(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "npudoctor", *arguments]

    def environment(self, variables: dict[str, Optional[str]]) -> dict[str, str]:
        """Nothing of this shell but PATH: no LANG, no PYTHONUNBUFFERED."""
        both = {**self.variables, **variables}
        return {name: value for name, value in both.items() if value is not None}

    def drop_in(
        self,
        name: str,
        body: str = "return\nyield",
        *,
        top: str = "",
        title: str = "A title",
        scope: str = "NODE",
    ) -> Path:
        """Write a drop-in; `body` is the body of its question."""
        path = self.drop_ins / f"{name}.py"
        text = textwrap.indent(textwrap.dedent(body), "    ")
        words = {"id": name.replace("_", "-"), "top": textwrap.dedent(top), "title": title, "scope": scope}
        filled = DROP_IN.format(body=text, **words)
        path.write_text(filled, encoding="utf-8")
        path.chmod(0o644)
        return path
