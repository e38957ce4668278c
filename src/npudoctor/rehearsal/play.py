"""Plays a rehearsal: the faulty machine is checked, repaired as far as possible, and checked again."""

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
from npudoctor.rehearsal.namespaces import CannotRehearse, run_in_namespaces
from npudoctor.rehearsal.stage import SYSTEM, Stage

AS_EXPECTED, NOT_AS_EXPECTED = 0, 1
# Commands that change the shell itself, which are repeated before each program that is started from it.
_SHELL_STATE_COMMANDS = ("export ", "unset ", "ulimit ", "umask ", "cd ")
_AS_DATA = ("--format", "json")
_UNANSWERED = ("unknown", "timeout", "crashed", "broken")
# Starts this very npudoctor with its checks, whatever PYTHONPATH and other variables the faulty shell has.
_START = """
import sys
sys.path[:] = {path!r}
import npudoctor
npudoctor.__path__ += {checks!r}
from npudoctor.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True)
class RehearsalOutput:
    """Takes the output of a rehearsal: `say` a line about a step, `report` the text of a report.

    `terminal`: variables such as TERM and COLUMNS, with which npudoctor writes to the terminal itself; None
    when standard output is no terminal, or one that is not UTF-8.
    """

    say: Callable[[str], None]
    report: Callable[[str], None]
    terminal: Optional[dict[str, str]] = None


def rehearse(fault: Fault, options: Sequence[str], voice: RehearsalOutput) -> int:
    """Rehearse a fault; returns 0 when it was found and its remedy repaired it, 1 otherwise.

    `options`: of `npudoctor check`, for its reports. Raises CannotRehearse when the machine cannot be built.
    """
    missing = [program for program in fault.programs if shutil.which(program, path=SYSTEM) is None]
    if missing:
        raise CannotRehearse(_("not installed: {programs}", programs=", ".join(missing)))
    return run_in_namespaces(lambda: _play_fault(fault, build_own_command(), options, voice))


def build_own_command() -> list[str]:
    """The words that start this npudoctor, without its command."""
    import npudoctor

    path = [path for path in sys.path if path.startswith("/")]
    path.append(os.path.dirname(npudoctor.__path__[0]))
    checks = [os.path.dirname(folder) for folder in import_module("npudoctor.checks").__path__]
    return [sys.executable, "-I", "-c", _START.format(path=path, checks=checks)]


def _play_fault(fault: Fault, start: list[str], options: Sequence[str], voice: RehearsalOutput) -> int:
    """In the namespaces: build the machine, break it, and run the rehearsal."""
    tree.build_tree()
    kernel.forbid_new_privileges()
    stage = Stage()
    stage.variables.update(voice.terminal or {})
    stage.begin()
    fault.makes(stage)
    if fault.seconds:
        voice.say(_("waiting {seconds:g} s: newer leftovers are not judged", seconds=fault.seconds))
        time.sleep(fault.seconds)
    return _Rehearsal(fault, stage, start, options, voice).run()


class _Rehearsal:
    """One rehearsal on the faulty machine, from the first check to the last."""

    def __init__(
        self, fault: Fault, stage: Stage, start: list[str], options: Sequence[str], voice: RehearsalOutput
    ) -> None:
        self._fault, self._stage, self._start = fault, stage, start
        self._say, self._report, self._terminal = voice.say, voice.report, voice.terminal
        self._options = options
        self._risks: set[str] = set()  # of the fixes in the last report; a fault may have several findings
        self._shell: list[str] = []  # commands typed into the job's shell that change the shell itself

    def run(self) -> int:
        code = self._fault.code
        if self._check()[0] is None:
            self._say(_("{code} was not found: the rehearsal failed", code=code))
            return NOT_AS_EXPECTED
        # People copy this line: it has no option that these fixes do not need.
        self._show("fix", "--yes", *(("--risk", "caution") if "caution" in self._risks else ()))
        working_remedy = FIX
        lines = self._shown_commands() if self._remedy == TYPED else []
        if lines:
            working_remedy = TYPED
            # Type them as a person would who reads the report.
            for line in lines:
                self._say(f"$ {line}")
                if line.startswith(_SHELL_STATE_COMMANDS):
                    self._shell.append(line)
                else:
                    subprocess.run(
                        self._shell_command([], line), check=False, stdout=2, **self._run_options()
                    )
        finding, has_answer = self._check()
        return self._conclude(working_remedy if finding is None and has_answer else NOTHING)

    def _shown_commands(self) -> list[str]:
        """The commands that the finding still shows after `fix`."""
        return ((self._query()[0] or {}).get("fix") or {}).get("commands") or []

    def _conclude(self, working_remedy: str) -> int:
        """Report what repaired the fault; returns whether that is the expected remedy."""
        texts = {
            FIX: _("{code} was found, and npudoctor fix repaired it"),
            TYPED: _("{code} was found, and the commands that it shows repaired it"),
            NOTHING: _("{code} was found; no command on this machine can repair it"),
        }
        if self._remedy == NOTHING != self._fault.remedy:
            texts[NOTHING] = _("{code} was found; only root can repair it")
        self._say(texts[working_remedy].format(code=self._fault.code))
        if working_remedy != self._remedy:
            self._say(_("the result is not the expected one: the rehearsal failed"))
        return AS_EXPECTED if working_remedy == self._remedy else NOT_AS_EXPECTED

    @property
    def _remedy(self) -> str:
        """What can repair the fault for this user."""
        fault = self._fault
        return NOTHING if fault.by_root and not self._stage.is_root else fault.remedy

    def _show(self, command: str, *options: str) -> bytes:
        """Run npudoctor for people to read; returns its output, b"" when that went to a terminal."""
        words = self._command_words(command, options)
        self._say("$ npudoctor " + " ".join(words))
        # npudoctor writes to a terminal itself, which tells its width and colors; else `report` gets the
        # text.
        stdout = subprocess.PIPE if self._terminal is None else None
        done = subprocess.run(self._shell_command(words), check=False, stdout=stdout, **self._run_options())
        self._report((done.stdout or b"").decode("utf-8", "replace"))
        return done.stdout or b""

    def _check(self) -> tuple[Optional[dict[str, Any]], bool]:
        """Run the check, show it, and read its result; one run when the options ask for JSON anyway."""
        shown = self._show("check", *self._options)
        return self._parse_report(shown) if shown and tuple(self._options) == _AS_DATA else self._query()

    def _query(self) -> tuple[Optional[dict[str, Any]], bool]:
        """The finding (None when it is absent), and whether the check gave an answer."""
        done = subprocess.run(
            self._shell_command(self._command_words("check", _AS_DATA)),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **self._run_options(),
        )
        return self._parse_report(done.stdout)

    def _parse_report(self, report: bytes) -> tuple[Optional[dict[str, Any]], bool]:
        try:
            rows = json.loads(report)["results"]
        except ValueError as error:
            raise CannotRehearse(_("npudoctor printed no report in the sandbox")) from error
        own_rows = [row for row in rows if row["check"] == self._fault.check]
        findings = [
            finding for row in own_rows for finding in row["findings"] if finding["code"] == self._fault.code
        ]
        self._risks = {
            finding["fix"]["risk"] for row in own_rows for finding in row["findings"] if finding["fix"]
        }
        # A report without a row of the check is no answer: nothing was examined.
        has_answer = bool(own_rows) and all(row["status"] not in _UNANSWERED for row in own_rows)
        return (findings[0] if findings else None), has_answer

    def _command_words(self, command: str, options: Sequence[str]) -> list[str]:
        fault_options = self._fault.options if command == "check" else ()
        selection = self._fault.check
        if command == "fix" and selection == "cache-server":  # as the report advises it (render.text)
            selection = "--cache-server"
        return [command, selection, *fault_options, *options]

    def _shell_command(self, words: Sequence[str], line: str = "") -> list[str]:
        """The words of a shell in the state reached so far, which runs npudoctor or the given line."""
        last = line or 'exec "$@"'
        return ["/bin/sh", "-c", "\n".join([*self._shell, last]), "sh", *self._start, *words]

    def _run_options(self) -> dict[str, Any]:
        if self._stage.is_folder_removed:
            os.makedirs(self._stage.folder, exist_ok=True)
        return {"cwd": self._stage.folder, "env": self._stage.variables, "stdin": subprocess.DEVNULL,
                "preexec_fn": self._enter_shell}  # fmt: skip

    def _enter_shell(self) -> None:
        """In the child (preexec_fn): set the limits of the faulty shell, and remove its working directory."""
        for limit_kind, soft_limit in self._stage.limits:
            resource.setrlimit(limit_kind, (soft_limit, resource.getrlimit(limit_kind)[1]))
        if self._stage.is_folder_removed:
            os.rmdir(self._stage.folder)
