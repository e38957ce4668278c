"""Nothing that a terminal would act upon gets through; everything else does."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from npudoctor.render.json_text import json_text
from npudoctor.render.printable import printable, without_surrogates


@pytest.mark.parametrize("text", ["", "plain", "中文，全角（）", "café", "emoji 🙂", "a\\x41b"])
def test_what_can_be_read_stays(text: str) -> None:
    assert printable(text) == without_surrogates(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\x0ab"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\u2028\ufeff\u200b", "\\u2028\\ufeff\\u200b"),
        ("\U000e0001", "\\U000e0001"),
        (b"\xff\x80".decode("utf-8", "surrogateescape"), "\\xff\\x80"),
        ("\ud800\udfff", "\\ud800\\udfff"),
    ],
)
def test_the_rest_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_no_character_of_unicode_that_acts_gets_through() -> None:
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert printable(char).isascii(), hex(number)


def test_json_holds_any_text_and_is_printable() -> None:
    odd = "\x1b\x7f\x9b\u202e\u2028\U000e0001" + b"\xff".decode("utf-8", "surrogateescape") + "\ud800 中文"
    text = json_text({odd: [odd, (odd,)], "plain": {"x": None, "y": 1.5, "z": True}})
    assert text.replace("\n", "").isprintable() and text.endswith("}\n")
    clean = odd.replace("\udcff", "\\xff").replace("\ud800", "\\ud800")
    assert json.loads(text) == {clean: [clean, [clean]], "plain": {"x": None, "y": 1.5, "z": True}}
    assert "中文" in text


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        json_text({"x": float("nan")})
