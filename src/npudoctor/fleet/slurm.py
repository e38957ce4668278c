"""Asks nodes by srun, inside an allocation or outside one: no ssh, and Slurm ends what it started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
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
_LABEL = pattern(r" *(\d+): ?")  # of `srun --label`: the number of the task


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes by one srun, and return when it ended. `turn` is called about once a second."""
    for node in gathering.request.nodes:
        gathering.begin(node)
    command = _command(gathering, os.environ)
    try:
        srun = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CannotTell(_("srun cannot be started: {why}").format(why=strerror(error.errno))) from error
    with srun:
        try:
            _Tasks(gathering).follow(srun, turn)
        except BaseException:
            gathering.stop()
            os.killpg(srun.pid, signal.SIGTERM)  # srun ends its tasks on all nodes
            raise
    for node in gathering.left:
        gathering.end(node, srun.returncode)


def _command(gathering: Gathering, variables: Mapping[str, str]) -> list[str]:
    request = gathering.request
    # In an allocation its own steps may hold all of the nodes.
    overlap = ("--overlap",) if "SLURM_JOB_ID" in variables else ()
    return [
        *(trusted_program("srun"), "--label", "--unbuffered", *overlap, "--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
        *("--nodelist", fold(request.nodes), "--nodes", str(len(request.nodes)), "--ntasks-per-node=1"),
        *words(request, gathering.mark, watched=False, talking=gathering.converses),
    ]


class _Tasks:
    """Whose line is whose: srun numbers its tasks, and the first line of an answer names the node."""

    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering
        self._frames: dict[str, Frame] = {}
        self._errors = Frame(gathering.mark)
        self._until = time.monotonic() + gathering.request.seconds

    def follow(self, srun: subprocess.Popen[bytes], turn: Callable[[], None]) -> None:
        """Read until srun has closed both streams, or the time is over."""
        output, errors = (stream.fileno() for stream in (srun.stdout, srun.stderr) if stream)
        rest = {output: b"", errors: b""}
        shown = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for descriptor in rest:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map() and time.monotonic() < self._until:
                for key, _events in selector.select(TURN):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fd)
                    *lines, rest[key.fd] = (rest[key.fd] + chunk).split(b"\n")
                    rest[key.fd] = rest[key.fd][-LONGEST:]
                    for line in lines:
                        self._line(line, key.fd == output)
                if time.monotonic() - shown > TURN:
                    shown = time.monotonic()
                    turn()
            if selector.get_map():
                os.killpg(srun.pid, signal.SIGTERM)

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
        frame.add(line[label.end() :])
        if frame.ended:
            self._gathering.place(frame.node, frame)
            self._gathering.end(frame.node)
