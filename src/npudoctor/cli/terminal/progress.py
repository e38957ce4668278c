"""What takes long, for a person at a terminal: what is waited for and since when, how much is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.cli.terminal import output
from npudoctor.cli.terminal.signals import Stopped
from npudoctor.cli.terminal.status_line import LINE, can_show
from npudoctor.core.messages import _, ngettext
from npudoctor.core.threads import start_thread, wait

if TYPE_CHECKING:
    from npudoctor.host import Host
    from npudoctor.runner.check_run import CheckRun

AFTER = 1.0  # seconds: what is done sooner needs no line
EVERY = 0.2
_BAR = 20  # columns
_NAMED = 8  # checks in the line that a person's Ctrl-C gets


class Waiting:
    """A context that says while it lasts what is waited for. `describe` gets the seconds since it began;
    `undone` says, where Ctrl-C ends it, what was left undone."""

    def __init__(self, describe: Callable[[float], str], undone: Optional[Callable[[], str]] = None) -> None:
        self._describe, self._undone = describe, undone
        self._began = time.monotonic()
        self._over, self._ended = threading.Event(), threading.Event()
        self._begun: Optional[threading.Event] = None

    def __enter__(self) -> Waiting:
        if can_show():
            with suppress(RuntimeError, MemoryError):  # the machine has no room for another thread
                self._begun = start_thread(self._draw)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._over.set()
        if self._begun is None:
            return
        if self._begun.is_set():
            wait(self._ended, time.monotonic() + AFTER)
        LINE.clear()
        if isinstance(error, Stopped) and self._undone is not None:
            output.complain(self._undone())

    def _draw(self) -> None:
        try:
            self._over.wait(AFTER)
            while not self._over.is_set():
                LINE.draw(self._describe(time.monotonic() - self._began))
                self._over.wait(EVERY)
        finally:
            self._ended.set()


def watch(runs: Sequence[CheckRun], host: Host) -> Waiting:
    """Says which checks have no result yet, and which program they wait for."""

    def describe(seconds: float) -> str:
        left = _list_pending(runs)
        parts = [_("{seconds:.0f} s", seconds=seconds)]
        tools = host.commands.list_running()
        if tools:
            parts.append(_("waiting for {programs}", programs=_(", ").join(_since(*tool) for tool in tools)))
        parts.append(
            ngettext(
                "{count} check left: {checks}",
                "{count} checks left: {checks}",
                len(left),
                count=len(left),
                checks=_(", ").join(left),
            )
            if left
            else _("almost done")
        )
        return _("; ").join(parts)

    def undone() -> str:
        left = _list_pending(runs)
        tools = _(", ").join(_since(*tool) for tool in host.commands.list_running())
        shown = _(", ").join(left[:_NAMED]) + (" ..." if len(left) > _NAMED else "")
        text = _("interrupted: no result yet from {checks}") if left else _("interrupted")
        if tools:
            text = _("{text}; was waiting for {programs}", text=text, programs=tools)
        return text.format(checks=shown)

    return Waiting(describe, undone)


def waiting_for_programs(host: Host, undone: str) -> Waiting:
    """Says only which programs are waited for; `undone` is what Ctrl-C gets."""

    def describe(seconds: float) -> str:
        tools = _(", ").join(_since(*tool) for tool in host.commands.list_running())
        text = _("{seconds:.0f} s; waiting for {programs}") if tools else _("{seconds:.0f} s")
        return text.format(seconds=seconds, programs=tools)

    return Waiting(describe, lambda: undone)


def _list_pending(runs: Sequence[CheckRun]) -> list[str]:
    """The checks without a result, those that are being asked first."""
    left = [run for run in runs if not run.done.is_set()]
    return [run.check.id for run in sorted(left, key=lambda run: run.started is None)]


def _since(program: str, seconds: float) -> str:
    return _("{program} ({seconds:.0f} s)", program=program, seconds=seconds)


class LogProgress:
    """How far a long reading is, by bytes: a context, and what is told the bytes that are read."""

    def __init__(self) -> None:
        self._seen = can_show()
        self._began = time.monotonic()
        self._next = self._began + AFTER
        self._read = self._total = 0

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._seen:
            LINE.clear()
            if isinstance(error, Stopped):
                output.complain(self._undone())

    def show(self, read: int, total: int) -> None:
        """Draw it, now and then."""
        self._read, self._total = read, total
        now = time.monotonic()
        if self._seen and now >= self._next and total:
            self._next = now + EVERY
            LINE.draw(self._text(now - self._began))

    def _text(self, seconds: float) -> str:
        part = min(1.0, self._read / self._total)
        bar = "#" * round(part * _BAR)
        rate = self._read / seconds
        text = _(
            "[{bar}] {percent} %: {done} of {total} MB read, {rate} MB/s",
            bar=f"{bar:<{_BAR}}",
            percent=round(100 * part),
            done=_mb(self._read),
            total=_mb(self._total),
            rate=_mb(rate),
        )
        left = (self._total - self._read) / rate if rate else 0
        return text + _(", {seconds:.0f} s left", seconds=left) if rate else text

    def _undone(self) -> str:
        return _(
            "interrupted: {done} of {total} MB were read, and nothing was concluded",
            done=_mb(self._read),
            total=_mb(self._total),
        )


def stream_waiting(name: str, read: Callable[[], int]) -> Waiting:
    """The same for a pipe, whose end nobody knows. `read`: how many bytes came so far."""

    def describe(seconds: float) -> str:
        return _(
            "{seconds:.0f} s: {done} MB of {name} read, {rate} MB/s",
            seconds=seconds,
            done=_mb(read()),
            name=name,
            rate=_mb(read() / max(seconds, 1e-3)),
        )

    def undone() -> str:
        return _(
            "interrupted: {done} MB of {name} were read, and nothing was concluded",
            done=_mb(read()),
            name=name,
        )

    return Waiting(describe, undone)


def _mb(count: float) -> str:
    return f"{count / 1e6:.0f}" if count >= 1e7 else f"{count / 1e6:.1f}"
