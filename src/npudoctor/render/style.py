"""The style of text output: plain words, or symbols and colors when the terminal can show them."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Severity, Status
from npudoctor.render.columns import join_head, paragraph

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

# Symbols that every terminal font has, and that take one column in Chinese terminals, too.
_SYMBOLS = {"error": "✗", "warning": "!", "info": "i", "ok": "✓", "open": "?"}
_COLOURS = {"error": RED, "warning": YELLOW, "info": CYAN, "ok": GREEN, "open": YELLOW}


@dataclass(frozen=True)
class Style:
    """Whether to use color and symbols. Both are off for a file, a pipe, NO_COLOR and TERM=dumb."""

    colour: bool = False
    symbols: bool = False

    def paint(self, text: str, colour: str) -> str:
        """The text in a color (an SGR code), when color is on."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour and text else text

    def sign(self, kind: str) -> str:
        """The symbol or word at the start of a line; `kind`: error, warning, info, ok or open (no result)."""
        words = {
            "error": _("error"),
            "warning": _("warning"),
            "info": _("info"),
            "ok": _("ok"),
            "open": _("unknown"),
        }
        return _SYMBOLS[kind] if self.symbols else words[kind]

    def heading(self, kind: str) -> str:
        """The sign before a line that sums up several checks."""
        return self.sign(kind) if self.symbols else _("{word}:", word=self.sign(kind))

    def paint_kind(self, kind: str, text: str, *, bold: bool = False) -> str:
        """The text in the color of its kind."""
        return self.paint(text, f"{BOLD};{_COLOURS[kind]}" if bold else _COLOURS[kind])


PLAIN = Style()


def sign_paragraph(kind: str, text: str, style: Style) -> Iterator[str]:
    """A paragraph that starts with the sign of its kind."""
    return _head_paragraph(style.sign(kind), kind, text, style)


def sum_paragraph(kind: str, text: str, style: Style) -> Iterator[str]:
    """A paragraph that sums up several checks, with the heading of its kind."""
    return _head_paragraph(style.heading(kind), kind, text, style)


def _head_paragraph(sign: str, kind: str, text: str, style: Style) -> Iterator[str]:
    first, *rest = paragraph(text, join_head(sign, ""), " " * 4)
    yield style.paint_kind(kind, sign) + first[len(sign) :]
    yield from rest


def kind_of(severity: Severity) -> str:
    """The kind of line for a severity."""
    return {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}[severity]


def status_words() -> dict[Status, str]:
    """By status, its word in the current language."""
    return {
        Status.OK: _("ok"),
        Status.PROBLEM: _("problem"),
        Status.SKIPPED: _("skipped"),
        Status.UNKNOWN: _("unknown"),
        Status.TIMEOUT: _("timeout"),
        Status.CRASHED: _("crashed"),
        Status.BROKEN: _("not loaded"),
    }


def severity_words() -> dict[Severity, str]:
    """By severity, its word in the current language."""
    return {Severity.ERROR: _("error"), Severity.WARNING: _("warning"), Severity.INFO: _("info")}
