"""The only door through which JSON, TOML, YAML and archives come in: each text has a size, a depth and a
number of objects at most, and what passes them is a ValueError of one line, never a crash or an endless wait.

What a parser makes of a text is walked by functions that call themselves; whoever wrote the text must not
choose how deep. TOML makes deep tables without nesting (a.a.a.a = 1): there the result is measured.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Union

from npudoctor.core.messages import _

LARGEST = 64 << 20  # bytes
DEEPEST = 64  # containers in each other; the deepest of ours, Ansible's around a report, has about twenty
OBJECTS = 1_000_000  # tables of a text, as far as their braces tell
LONGEST_NUMBER = 400  # digits; older Pythons take minutes to read one of a million
# Every byte but brackets, braces and quotes: what bytes.translate deletes.
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')
# tomllib and tomli are pure Python, many times slower than the C of json.
TOML_LARGEST = 4 << 20
YAML_LARGEST = 1 << 20  # its parser is a hundred times slower


class TooMuch(ValueError):
    """The text passes one of the limits; the message completes a sentence that names it."""


def json_of(
    text: Union[str, bytes, bytearray],
    *,
    most: int = LARGEST,
    objects: int = OBJECTS,
    **hooks: Any,
) -> Any:
    """Parse a JSON text; ValueError (TooMuch where it passes a limit). `most`: characters or bytes. `hooks`:
    arguments of json.loads.
    """
    if len(text) > most:
        raise TooMuch(_("it is larger than {most} bytes", most=most))
    if isinstance(text, (bytes, bytearray)):
        text = text.decode("utf-8-sig")
    # Counted before anything is parsed: a parser would have built all objects by then.
    marks = _marks(text)
    if marks.count(b"{") > objects:
        raise TooMuch(_("it has more than {most} objects", most=objects))
    # sys.set_int_max_str_digits came with 3.11, 3.10.7 and 3.9.14: with it, int() refuses by itself.
    if "parse_int" not in hooks and not hasattr(sys, "get_int_max_str_digits"):
        hooks["parse_int"] = _integer
    try:
        document = json.loads(text, **hooks)
    except RecursionError:
        raise TooMuch(_("it is nested too deeply")) from None
    _expect_flat(marks)
    return document


def next_json(text: str, at: int = 0, **hooks: Any) -> tuple[Any, int]:
    """Parse the JSON that begins at a place of a text; (document, end). ValueError as in `json_of`.

    Whoever goes through a text begins at 0, where the limits for the whole text are checked, once.
    """
    if not at and len(text) > LARGEST:
        raise TooMuch(_("it is larger than {most} bytes", most=LARGEST))
    # A text that is shorter than the limit cannot have as many braces.
    if not at and len(text) > OBJECTS and text.count("{") > OBJECTS:
        raise TooMuch(_("it has more than {most} objects", most=OBJECTS))
    try:
        document, end = json.JSONDecoder(**hooks).raw_decode(text, at)
    except RecursionError:
        raise TooMuch(_("it is nested too deeply")) from None
    _expect_flat(_marks(text[at:end]))
    return document, end


def toml_of(text: str, most: int = TOML_LARGEST) -> dict[str, Any]:
    """Parse a TOML text; ValueError where it is none, or passes a limit."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if len(text) > most:
        raise TooMuch(_("it is larger than {most} bytes", most=most))
    for line in text.split("\n"):
        if line.count(".") <= DEEPEST:
            continue
        # It may have a name of many parts: the parser copies all of them for each.
        for mark in "={[#,":
            line = line.replace(mark, " ")
        words = " ".join(line.split()).replace(" .", ".").replace(". ", ".").split(" ")
        if any(word.count(".") > DEEPEST for word in words):
            raise TooMuch(_("it is nested too deeply"))
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise TooMuch(_("it is nested too deeply")) from None
    level: list[Any] = [document]  # by level: nothing calls itself
    for _depth in range(DEEPEST):
        level = [
            part
            for container in level
            if (kind := type(container)) is dict or kind is list
            for part in (container.values() if kind is dict else container)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return document
    raise TooMuch(_("it is nested too deeply"))


def yaml_of(text: str) -> Any:
    """Parse a YAML text; ValueError where it is none, or passes a limit; MissingExtra without PyYAML."""
    from npudoctor.core.optional import load  # every run reads JSON, and few read YAML

    yaml = load("yaml")
    if len(text) > YAML_LARGEST:
        raise TooMuch(_("it is larger than {most} bytes", most=YAML_LARGEST))
    try:
        return yaml.safe_load(text)
    # PyYAML's messages have several lines with an excerpt.
    except yaml.YAMLError as error:
        raise ValueError(str(error).split("\n")[0]) from error
    except RecursionError:
        raise TooMuch(_("it is nested too deeply")) from None


def is_zip(content: bytes) -> bool:
    """Return whether the bytes end as a zip file does."""
    import io
    import zipfile

    # From its end: zipapp puts a line "#!" before the archive.
    return zipfile.is_zipfile(io.BytesIO(content))


def _marks(text: str) -> bytes:
    """The brackets and the quotes of a JSON text. A report has thousands of values, and thousands are read at
    once: nothing is done here for each value, but by the C of `bytes`."""
    # Escaped quotes must go first, or a string would seem to end there; and before them escaped backslashes.
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    return text.encode("utf-8", "surrogatepass").translate(None, _NO_MARKS)


def _expect_flat(marks: bytes) -> None:
    """TooMuch where a JSON text, which is valid, is deeper than DEEPEST."""
    # Strings without brackets are two quotes now. What stands between two left over is in a string.
    brackets = marks.replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _depth in range(DEEPEST):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return
    raise TooMuch(_("it is nested too deeply"))


def _integer(digits: str) -> int:
    """A hook of the parser: older Pythons take minutes to read a number of a million digits."""
    if len(digits) > LONGEST_NUMBER:
        raise TooMuch(_("it contains a number with {count} digits", count=len(digits)))
    return int(digits)
