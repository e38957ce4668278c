"""What happens on the sick machine: it is checked, mended as far as it can be, and checked again."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.rehearsal import kernel, tree
from npudoctor.rehearsal.fault import FIX, NOTHING, TYPED, Fault
from npudoctor.rehearsal.namespaces import Lacking, run_apart
from npudoctor.rehearsal.stage import SYSTEM, Stage

AS_EXPECTED, OTHERWISE = 0, 1
# Lines that change the shell itself: said again before each program that it starts.
_OF_THE_SHELL = ("export ", "unset ", "ulimit ", "umask ", "cd ")
_AS_DATA = ("--format", "json")
_UNANSWERED = ("unknown", "timeout", "crashed", "broken")
# npudoctor as we are, wherever it and its checks were found, whatever the variables of the sick shell say.
_START = """
import sys
sys.path[:] = {path!r}
import npudoctor
npudoctor.__path__ += {checks!r}
from npudoctor.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Voice:
    """Where things go: `say` takes a line of what is done, `report` the text of a report.

    `terminal`: the variables by which the doctor knows how to speak on the terminal that standard output is;
    None where it is none, or one that does not read UTF-8.
    """

    say: Callable[[str], None]
    report: Callable[[str], None]
    terminal: Optional[dict[str, str]] = None


def rehearse(fault: Fault, options: Sequence[str], voice: Voice) -> int:
    """0 where it was found, and gone after what is said to mend it; 1 otherwise. `options`: of check, for its
    reports. Raises Lacking where the machine cannot be built."""
    missing = [program for program in fault.programs if shutil.which(program, path=SYSTEM) is None]
    if missing:
        raise Lacking(_("not installed: {programs}", programs=", ".join(missing)))
    return run_apart(lambda: _play(fault, own_command(), options, voice))


def own_command() -> list[str]:
    """argv of npudoctor up to its command."""
    import npudoctor

    path = [path for path in sys.path if path.startswith("/")]
    path.append(os.path.dirname(npudoctor.__path__[0]))
    checks = [os.path.dirname(folder) for folder in import_module("npudoctor.checks").__path__]
    return [sys.executable, "-I", "-c", _START.format(path=path, checks=checks)]


def _play(fault: Fault, start: list[str], options: Sequence[str], voice: Voice) -> int:
    """In the namespaces."""
    tree.build()
    kernel.no_new_privileges()
    stage = Stage()
    stage.variables.update(voice.terminal or {})
    stage.begin()
    fault.makes(stage)
    if fault.seconds:
        voice.say(_("waiting {seconds:g} s: newer leftovers are not judged", seconds=fault.seconds))
        time.sleep(fault.seconds)
    return _Play(fault, stage, start, options, voice).run()


class _Play:
    """One rehearsal, from the first check to the last."""

    def __init__(
        self, fault: Fault, stage: Stage, start: list[str], options: Sequence[str], voice: Voice
    ) -> None:
        self._fault, self._stage, self._start = fault, stage, start
        self._say, self._report, self._terminal = voice.say, voice.report, voice.terminal
        self._options = options
        self._shell: list[str] = []  # what was typed into the shell of the job

    def run(self) -> int:
        code = self._fault.code
        if self._check()[0] is None:
            self._say(_("{code} was not found: the rehearsal failed", code=code))
            return OTHERWISE
        self._show("fix", "--yes", "--risk", "caution")
        mended = FIX
        lines = self._lines() if self._remedy == TYPED else []
        if lines:
            mended = TYPED
            # As somebody would who reads them.
            for line in lines:
                self._say(f"$ {line}")
                if line.startswith(_OF_THE_SHELL):
                    self._shell.append(line)
                else:
                    subprocess.run(self._in_shell([], line), check=False, stdout=2, **self._how())
        there, answered = self._check()
        return self._end(mended if there is None and answered else NOTHING)

    def _lines(self) -> list[str]:
        """What the check still shows to be typed."""
        return ((self._look()[0] or {}).get("fix") or {}).get("commands") or []

    def _end(self, mended: str) -> int:
        """What the rehearsal showed, and whether that is what it is known for."""
        texts = {
            FIX: _("{code} was found, and npudoctor fix repaired it"),
            TYPED: _("{code} was found, and the commands that it shows repaired it"),
            NOTHING: _("{code} was found; no command on this machine can repair it"),
        }
        if self._remedy == NOTHING != self._fault.remedy:
            texts[NOTHING] = _("{code} was found; only root can repair it")
        self._say(texts[mended].format(code=self._fault.code))
        if mended != self._remedy:
            self._say(_("the result is not the expected one: the rehearsal failed"))
        return AS_EXPECTED if mended == self._remedy else OTHERWISE

    @property
    def _remedy(self) -> str:
        """What mends it for this user."""
        fault = self._fault
        return NOTHING if fault.by_root and not self._stage.root else fault.remedy

    def _show(self, command: str, *options: str) -> bytes:
        """Run the doctor for people; what it printed, where that is not a terminal's."""
        words = self._words(command, options)
        self._say("$ npudoctor " + " ".join(words))
        # A terminal is the doctor's own, for its width and its colours; a program gets all by one door.
        stdout = subprocess.PIPE if self._terminal is None else None
        done = subprocess.run(self._in_shell(words), check=False, stdout=stdout, **self._how())
        self._report((done.stdout or b"").decode("utf-8", "replace"))
        return done.stdout or b""

    def _check(self) -> tuple[Optional[dict[str, Any]], bool]:
        """Run the check for people, and look at it: both at once where they want what we read."""
        shown = self._show("check", *self._options)
        return self._read(shown) if shown and tuple(self._options) == _AS_DATA else self._look()

    def _look(self) -> tuple[Optional[dict[str, Any]], bool]:
        """The finding, None where it is not there; and whether the check could answer."""
        done = subprocess.run(self._in_shell(self._words("check", _AS_DATA)), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **self._how())  # fmt: skip
        return self._read(done.stdout)

    def _read(self, report: bytes) -> tuple[Optional[dict[str, Any]], bool]:
        try:
            rows = json.loads(report)["results"]
        except ValueError as error:
            raise Lacking(_("npudoctor printed no report in the sandbox")) from error
        own = [row for row in rows if row["check"] == self._fault.check]
        findings = [
            finding for row in own for finding in row["findings"] if finding["code"] == self._fault.code
        ]
        answered = all(row["status"] not in _UNANSWERED for row in own)
        return (findings[0] if findings else None), answered

    def _words(self, command: str, options: Sequence[str]) -> list[str]:
        own = self._fault.options if command == "check" else ()
        return [command, self._fault.check, *own, *options]

    def _in_shell(self, words: Sequence[str], line: str = "") -> list[str]:
        """argv of the shell in which all was typed: it becomes the doctor, or does this line."""
        last = line or 'exec "$@"'
        return ["/bin/sh", "-c", "\n".join([*self._shell, last]), "sh", *self._start, *words]

    def _how(self) -> dict[str, Any]:
        if self._stage.gone:
            os.makedirs(self._stage.folder, exist_ok=True)
        return {"cwd": self._stage.folder, "env": self._stage.variables, "stdin": subprocess.DEVNULL,
                "preexec_fn": self._enter}  # fmt: skip

    def _enter(self) -> None:
        """Called in the child (preexec_fn): the limits of the sick shell, and its folder without a name."""
        for what, most in self._stage.limits:
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
        if self._stage.gone:
            os.rmdir(self._stage.folder)
