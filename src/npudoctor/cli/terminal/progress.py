"""Shows on a terminal what a long run is waiting for, and how much of its input was read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.cli.terminal import output
from npudoctor.cli.terminal.signals import StoppedBySignal
from npudoctor.cli.terminal.status_line import LINE, can_show
from npudoctor.core.messages import _, ngettext
from npudoctor.core.threads import start_thread, wait

if TYPE_CHECKING:
    from npudoctor.host import Host
    from npudoctor.runner.check_run import CheckRun

AFTER = 1.0  # seconds: a shorter wait shows no line
EVERY = 0.2  # seconds between two updates
_BAR = 20  # columns
_MOST_NAMED = 8  # how many checks are named when a signal interrupts the run


class WaitingLine:
    """A context that shows a status line while it lasts, on a terminal only.

    `describe`: makes the text from the seconds since the start; `undone`: makes the line that is printed when
    a signal ends the context.
    """

    def __init__(self, describe: Callable[[float], str], undone: Optional[Callable[[], str]] = None) -> None:
        self._describe, self._describe_undone = describe, undone
        self._began = time.monotonic()
        self._over, self._ended = threading.Event(), threading.Event()
        self._begun: Optional[threading.Event] = None

    def __enter__(self) -> WaitingLine:
        if can_show():
            with suppress(RuntimeError, MemoryError):  # no thread can be started: there is no line then
                self._begun = start_thread(self._draw_repeatedly)
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
        if isinstance(error, StoppedBySignal) and self._describe_undone is not None:
            output.complain(self._describe_undone())

    def _draw_repeatedly(self) -> None:
        try:
            self._over.wait(AFTER)
            while not self._over.is_set():
                LINE.draw(self._describe(time.monotonic() - self._began))
                self._over.wait(EVERY)
        finally:
            self._ended.set()


def watch_checks(runs: Sequence[CheckRun], host: Host) -> WaitingLine:
    """A WaitingLine with the checks that have no result yet, and the programs they wait for."""

    def describe(seconds: float) -> str:
        pending = _list_pending(runs)
        parts = [_("{seconds:.0f} s", seconds=seconds)]
        tools = host.commands.list_running()
        if tools:
            parts.append(
                _("waiting for {programs}", programs=_(", ").join(_program_text(*tool) for tool in tools))
            )
        parts.append(
            ngettext(
                "{count} check left: {checks}",
                "{count} checks left: {checks}",
                len(pending),
                count=len(pending),
                checks=_(", ").join(pending),
            )
            if pending
            else _("almost done")
        )
        return _("; ").join(parts)

    def describe_undone() -> str:
        pending = _list_pending(runs)
        tools = _(", ").join(_program_text(*tool) for tool in host.commands.list_running())
        shown = _(", ").join(pending[:_MOST_NAMED]) + (" ..." if len(pending) > _MOST_NAMED else "")
        text = _("interrupted: no result yet from {checks}") if pending else _("interrupted")
        if tools:
            text = _("{text}; was waiting for {programs}", text=text, programs=tools)
        return text.format(checks=shown)

    return WaitingLine(describe, describe_undone)


def show_waiting_programs(host: Host, undone: str) -> WaitingLine:
    """A WaitingLine with the programs that are running; `undone` is printed when a signal ends it."""

    def describe(seconds: float) -> str:
        tools = _(", ").join(_program_text(*tool) for tool in host.commands.list_running())
        text = _("{seconds:.0f} s; waiting for {programs}") if tools else _("{seconds:.0f} s")
        return text.format(seconds=seconds, programs=tools)

    return WaitingLine(describe, lambda: undone)


def _list_pending(runs: Sequence[CheckRun]) -> list[str]:
    """The ids of the checks without a result, those that are running first."""
    pending = [run for run in runs if not run.done.is_set()]
    return [run.check.id for run in sorted(pending, key=lambda run: run.started is None)]


def _program_text(program: str, seconds: float) -> str:
    return _("{program} ({seconds:.0f} s)", program=program, seconds=seconds)


class LogProgress:
    """A context that shows how much of the logs was read, in bytes; `show` is called while they are read."""

    def __init__(self) -> None:
        self._is_shown = can_show()
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
        if self._is_shown:
            LINE.clear()
            if isinstance(error, StoppedBySignal):
                output.complain(self._describe_undone())

    def show(self, read: int, total: int) -> None:
        """Note the bytes that were read, and redraw the line at most every EVERY seconds."""
        self._read, self._total = read, total
        now = time.monotonic()
        if self._is_shown and now >= self._next and total:
            self._next = now + EVERY
            LINE.draw(self._text(now - self._began))

    def _text(self, seconds: float) -> str:
        fraction = min(1.0, self._read / self._total)
        bar = "#" * round(fraction * _BAR)
        rate = self._read / seconds
        text = _(
            "[{bar}] {percent} %: {done} of {total} MB read, {rate} MB/s",
            bar=f"{bar:<{_BAR}}",
            percent=round(100 * fraction),
            done=_megabytes_text(self._read),
            total=_megabytes_text(self._total),
            rate=_megabytes_text(rate),
        )
        remaining_seconds = (self._total - self._read) / rate if rate else 0
        return text + _(", {seconds:.0f} s left", seconds=remaining_seconds) if rate else text

    def _describe_undone(self) -> str:
        return _(
            "interrupted: {done} of {total} MB were read, and nothing was concluded",
            done=_megabytes_text(self._read),
            total=_megabytes_text(self._total),
        )


def show_stream_progress(name: str, read: Callable[[], int]) -> WaitingLine:
    """A WaitingLine for reading a pipe, whose size is unknown. `read`: returns the bytes read so far."""

    def describe(seconds: float) -> str:
        return _(
            "{seconds:.0f} s: {done} MB of {name} read, {rate} MB/s",
            seconds=seconds,
            done=_megabytes_text(read()),
            name=name,
            rate=_megabytes_text(read() / max(seconds, 1e-3)),
        )

    def describe_undone() -> str:
        return _(
            "interrupted: {done} MB of {name} were read, and nothing was concluded",
            done=_megabytes_text(read()),
            name=name,
        )

    return WaitingLine(describe, describe_undone)


def _megabytes_text(count: float) -> str:
    return f"{count / 1e6:.0f}" if count >= 1e7 else f"{count / 1e6:.1f}"
