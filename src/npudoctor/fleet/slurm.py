"""Asks nodes by srun, inside an allocation or outside one: no ssh, and Slurm ends what it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Callable

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.nodes import fold
from npudoctor.fleet.programs import trusted_program
from npudoctor.fleet.remote import LONGEST, Frame, words

TURN = 1.0  # seconds between two looks at the progress
_CHUNK = 1 << 16
_PATIENCE = 20.0  # seconds in which slurmctld answers
_FREE = frozenset(("idle", "mixed", "planned"))
# In an allocation of ours a node of it may be in any of these.
_STARTS = _FREE | frozenset(("allocated", "completing", "drained", "draining", "reserved"))
_LABEL = pattern(r" *(\d+): ?")  # of `srun --label`: the number of the task


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes by one srun, and return when it ended. `turn` is called about once a second.

    A single node that Slurm starts no step on keeps srun from all: of such the state is told at once.
    """
    nodes = _usable(gathering, os.environ)
    if not nodes:
        return
    for node in nodes:
        gathering.begin(node)
    command = _command(gathering, nodes, os.environ)
    try:
        srun = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CannotTell(_("srun cannot be started: {why}").format(why=strerror(error.errno))) from error
    tasks = _Tasks(gathering, srun)
    with srun:
        try:
            tasks.follow(turn)
        except BaseException:
            gathering.stop()
            os.killpg(srun.pid, signal.SIGTERM)  # srun ends its tasks on all nodes
            raise
    for node in gathering.left:
        gathering.end(node, srun.returncode, tasks.over, tasks.why_not)


def _usable(gathering: Gathering, variables: Mapping[str, str]) -> list[str]:
    """The nodes that Slurm starts a step on now; of the others it is told why not."""
    inside = "SLURM_JOB_ID" in variables
    states = _states(gathering.request.nodes)
    usable = []
    for node in gathering.request.nodes:
        state = states.get(node, "")
        name = state.rstrip("*~#!%$@^-+")
        if name in _STARTS and not state.endswith("*") and (inside or name in _FREE):
            usable.append(node)
        else:
            why = (
                _("Slurm says that it is {state}").format(state=state)
                if state
                else _("Slurm does not know it")
            )
            gathering.end(node, why=why)
    return usable


def _states(nodes: Sequence[str]) -> dict[str, str]:
    """What sinfo says of each node it knows."""
    command = [trusted_program("sinfo"), "--noheader", "--Node", "--format=%N %T", f"--nodes={fold(nodes)}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotTell(_("Slurm does not answer: {why}").format(why=error)) from error
    if done.returncode:
        raise CannotTell(_("Slurm does not answer: {why}").format(why=done.stderr.strip()[:200]))
    rows = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}


def _command(gathering: Gathering, nodes: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    request = gathering.request
    # In an allocation its own steps may hold all of the nodes; outside one nobody waits for a queue.
    place = (
        ("--overlap",)
        if "SLURM_JOB_ID" in variables
        else (f"--immediate={max(1, int(request.connect_seconds))}",)
    )
    return [
        *(trusted_program("srun"), "--label", *place, "--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
        *("--nodelist", fold(nodes), "--nodes", str(len(nodes)), "--ntasks", str(len(nodes))),
        "--ntasks-per-node=1",
        *words(request, gathering.mark, watched=False, talking=gathering.converses),
    ]


class _Tasks:
    """Whose line is whose: srun numbers its tasks, and the first line of an answer names the node."""

    def __init__(self, gathering: Gathering, srun: subprocess.Popen[bytes]) -> None:
        self._gathering, self._srun = gathering, srun
        self._frames: dict[str, Frame] = {}
        self._errors = Frame(gathering.mark)
        self._until = time.monotonic() + gathering.request.seconds

    @property
    def over(self) -> bool:
        """Whether the nodes had their time."""
        return time.monotonic() >= self._until

    @property
    def why_not(self) -> str:
        """What srun itself said, for nodes that said nothing; "" where they had their time."""
        if self.over:
            return ""
        said = self._errors.last_words()
        return _("srun ended with status {status}: {why}").format(status=self._srun.returncode, why=said)

    def follow(self, turn: Callable[[], None]) -> None:
        """Read until srun has closed both streams, or the time is over."""
        output, errors = (stream.fileno() for stream in (self._srun.stdout, self._srun.stderr) if stream)
        rest = {output: b"", errors: b""}
        shown = time.monotonic()
        self._write(self._gathering.request.carried)
        with selectors.DefaultSelector() as selector:
            for descriptor in rest:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map() and not self.over and self._gathering.awaited:
                for key, _events in selector.select(TURN):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fd)
                    *lines, rest[key.fd] = (rest[key.fd] + chunk).split(b"\n")
                    rest[key.fd] = rest[key.fd][-LONGEST:]
                    for line in lines:
                        self._line(line, key.fd == output)
                self._tell()
                if time.monotonic() - shown > TURN:
                    shown = time.monotonic()
                    turn()
            if selector.get_map():
                os.killpg(self._srun.pid, signal.SIGTERM)

    def _tell(self) -> None:
        told = self._gathering.told() if self._gathering.converses else None
        if told:
            self._write(told)
        elif told is not None and self._srun.stdin is not None:
            self._srun.stdin.close()

    def _write(self, data: bytes) -> None:
        """srun hands its standard input to all tasks."""
        if data and self._srun.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._srun.stdin.write(data)
                self._srun.stdin.flush()

    def _line(self, line: bytes, is_output: bool) -> None:
        text = line[:40].decode("ascii", "replace")
        label = _LABEL.match(text)
        if label is None:
            self._errors.noise(line)
            return
        frame = self._frames.setdefault(label[1], Frame(self._gathering.mark))
        if not is_output:
            frame.noise(line[label.end() :])
            return
        if frame.node in self._gathering.left:
            self._gathering.hear(frame.node, line[label.end() :])
        elif not frame.begun:
            frame.add(line[label.end() :])
            if frame.node in self._gathering.left:
                self._gathering.place(frame.node, frame)
        if frame.ended:
            self._gathering.end(frame.node)
