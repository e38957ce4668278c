"""Run by a Python that has npudoctor and what it requires, and nothing else: calls every command, each option
with a plausible value and every choice, each in a child of its own; prints as JSON how each ended."""

from __future__ import annotations

import gc
import io
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module

import npudoctor
from npudoctor.__main__ import main
from npudoctor.cli import logs
from npudoctor.cli.app import build_command_line
from npudoctor.cli.companions.grammar import CommandSpec, OptionSpec, all_commands, command_tree
from npudoctor.cli.request import read_rows
from npudoctor.core.frozen import replace
from npudoctor.core.optional import MissingExtra
from npudoctor.core.trust import guard
from npudoctor.explain.engine import make_engine_for_table
from npudoctor.explain.signatures.prepared import prepare_table
from npudoctor.registry import registry

PLAUSIBLE = {
    "FILE": "there", "PATH": sys.executable, "SCRIPT": "script.sh", "OUT.tar.gz": "out.tar.gz", "DIR": "/",
    "USER": "root", "NAME": "root", "SECONDS": "5", "PID": "self", "ADDR,...": "127.0.0.1",
    "SLURM_JOB_ID": "1", "NUMBER": "2", "N": "2", "NODES": "n[1-2]", "PORTS": "60000-60001",
    "ID|CODE[=REASON]": "clock=known", "ID|CODE": "clock", "auto|npu[=N]|gpu[=N]|none": "none",
}  # fmt: skip
# What a command needs beside the option that is tried: little to do, and nothing that changes the machine.
BESIDE = {
    "check": ("hccl-env", "--expect", "none"), "fix": ("hccl-env", "--dry-run"), "undo": ("--dry-run",),
    "run": ("--expect", "none", "--", "true"), "explain": ("job.log",), "rehearse": ("--list",),
    "snapshot": ("--expect", "none"), "diff": ("there", "there"), "show": ("clock",),
    "fleet check": ("-w", "n[1-2]"), "fleet fix": ("--cache-server", "--dry-run", "-w", "n[1-2]"),
    "fleet pairs": ("-w", "n[1-2]"), "fleet report": ("there",),
}  # fmt: skip
# These take no names of checks and ask all: so they do by the plain line, and with options that choose
# among them. With the others these few are enough.
FEW, ASK_ALL = ("accelerator", "clock", "hccl-env"), ("run", "snapshot")
CHOOSE = ("--profile", "--scope", "--deep", "--like")
SECONDS = 20


def calls() -> Iterator[list[str]]:
    for command in all_commands(command_tree()):
        words, beside = list(command.words), BESIDE.get(" ".join(command.words), ())
        yield words
        if beside:
            yield [*words, *beside]
        for choice in command.argument.choices if command.argument else ():
            yield [*words, choice]
        for option in command.options:
            yield from ([*words, *tried, *beside] for tried in forms(command, option))


def forms(command: CommandSpec, option: OptionSpec) -> Iterator[list[str]]:
    """The option under each name, with each of its choices, or a value of its kind."""
    for name in option.names:
        if option.value is None:
            yield [name]
        elif option.value.choices:
            yield from ([name, choice] for choice in option.value.choices)
        else:
            value = PLAUSIBLE[option.value.metavar]
            yield [name, str(os.getpid()) if value == "self" else value]


def call(words: list[str], log: str) -> int:
    """The exit status of one call; what it writes lies in the log."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        null, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, descriptor in enumerate((null, out, out)):
            os.dup2(descriptor, number)
        tried = words[1:2] if words and words[0] in ASK_ALL else []
        if tried and tried[0] not in (*CHOOSE, "--expect"):
            ask_few()
        sys.argv = ["npudoctor", *words]
        status = 99
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 98
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ask_few() -> None:
    """Let this process find no other checks than FEW."""
    loaded = registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""})
    found = replace(loaded, checks=tuple(check for check in loaded.checks if check.id in FEW))
    vars(registry)["load_all"] = lambda *_told: found


def load() -> None:
    """What each child would load and judge again, four hundred times: typer loads the most when it parses
    first. What cannot be loaded here, each child tries again and tells."""
    guard.secure(())
    guard.secure = lambda folders: None  # it has judged what is loaded, and judges what will be
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        build_command_line(["check"])(["check", "--help"])
    registry.load_all({"NPUDOCTOR_CHECKS_DIR": ""})
    table = read_rows(prepare_table, {"NPUDOCTOR_KNOWLEDGE_DIR": ""})
    engine = make_engine_for_table(table)
    vars(logs).update(read_rows=lambda _prepare, _variables: table, engine_for=lambda table: engine)
    for module in pkgutil.walk_packages(npudoctor.__path__, "npudoctor."):
        # What runs in the job's own interpreter acts when it is loaded.
        if not module.name.startswith(("npudoctor.probes.", "npudoctor.trial.parts.")):
            with suppress(ImportError, MissingExtra):
                import_module(module.name)
    gc.collect()
    gc.freeze()  # children walk through nothing of it


if __name__ == "__main__":
    load()
    rows = []
    for words in calls():
        if os.path.exists("out.tar.gz"):
            os.unlink("out.tar.gz")
        status = call(words, "log")
        with open("log", encoding="utf-8", errors="replace") as file:
            rows.append((words, status, file.read()))
    json.dump(rows, sys.stdout)
