"""Makes any text safe to print: escapes what a terminal would interpret or cannot show."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters, bidi controls and bytes that are not UTF-8 as escapes."""
    # Nearly every text is, and this check runs in C.
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape_char(char) for char in text)


def escape_char(char: str) -> str:
    """The escape of one character: \\x1b, \\u202e; a byte that is not UTF-8 as that byte."""
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8 (PEP 383)
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def without_surrogates(text: str) -> str:
    """The text with lone surrogates escaped, so that it can be encoded as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(escape_char(char) if "\ud800" <= char <= "\udfff" else char for char in text)
    return text
