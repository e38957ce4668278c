"""How values that were pasted into a shell are read: by C's strtol, and by the person who pasted them."""

from __future__ import annotations

# Quotes that no shell takes off, and what a document has after a value.
_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u300c\u300d"
# Also the Chinese comma and full stop.
_AFTER = ";,.\u3001\u3002"
# Zero-width characters and the byte order mark, which chats and web pages put into what is copied.
_HIDDEN = dict.fromkeys((0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
# isspace() in the C locale.
_C_BLANKS = " \t\n\v\f\r"
_LONGEST = 4096  # a longer value was not pasted


def clean_up(value: str) -> str:
    """The value without full-width characters, hidden ones, quotes and the punctuation after it."""
    if len(value) > _LONGEST:
        return value
    if not value.isascii():
        import unicodedata

        # NFKC turns full-width letters, digits and signs into ASCII.
        value = unicodedata.normalize("NFKC", value.translate(_HIDDEN))
    # Twice, as the punctuation may be inside of the quotes or behind them.
    return value.strip().rstrip(_AFTER).strip().strip(_QUOTES).rstrip(_AFTER).strip()


def strtol(value: str) -> int:
    """The number that C's strtol reads: blanks, a sign, then digits as far as they go; 0 where there are
    none.
    """
    text = value.lstrip(_C_BLANKS)
    sign = -1 if text.startswith("-") else 1
    digits = ""
    for character in text[1:] if text[:1] in ("-", "+") else text:
        # Beyond 19 digits C answers LONG_MAX; for us any number as large will do.
        if character not in "0123456789" or len(digits) > 18:
            break
        digits += character
    return sign * int(digits or "0")
