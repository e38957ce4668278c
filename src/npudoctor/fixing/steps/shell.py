"""How words and texts are spelled in the shell lines that a person reads and may paste."""

from __future__ import annotations

from collections.abc import Iterable


def quote(word: str) -> str:
    """Quote a word for a POSIX shell line that a person can read and paste, whatever bytes are in it.

    Control characters and bytes that are not UTF-8 become $'...', which bash, zsh and ksh read.
    """
    if word.isprintable():
        import shlex  # most runs show no line

        return shlex.quote(word)
    raw = word.encode("utf-8", "surrogateescape")
    safe = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in raw)
    return f"$'{safe}'"


def line_of(argv: Iterable[str]) -> str:
    """The shell line for an argv."""
    return " ".join(quote(word) for word in argv)


def print_command(text: str) -> str:
    """The command that prints exactly this text in any POSIX shell."""
    if not text:
        return ":"
    lines = text.split("\n")
    # A text of whole printable lines: one argument of printf for each.
    if lines[-1] == "" and all(line.isprintable() for line in lines):
        return " ".join(("printf", r"'%s\n'", *(quote(line) for line in lines[:-1])))
    first, *rest = text.encode("utf-8", "surrogateescape")
    start = r"\055" if first == ord("-") else _escape_byte(first)  # a dash would begin an option
    # Octal escapes are the only ones that POSIX demands of printf.
    return f"printf '{start}{''.join(map(_escape_byte, rest))}'"


def _escape_byte(byte: int) -> str:
    """A byte in a format of printf that stands between single quotes."""
    escapes = {ord("\n"): r"\n", ord("\\"): r"\\", ord("%"): "%%"}
    if byte in escapes:
        return escapes[byte]
    return chr(byte) if 32 <= byte < 127 and byte != ord("'") else f"\\{byte:03o}"
