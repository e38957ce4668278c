"""Text in columns, where a Chinese character takes two."""

from __future__ import annotations

import pytest

from npudoctor.render.columns import _BREAKS, _WORDS, WIDTH, _pieces, pad, paragraph, width


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("中文", 4), ("a中", 3), ("（）", 4), ("e\u0301", 1)]
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns
    assert width(pad(text, 8)) == 8


def test_a_long_sentence_is_broken_at_blanks() -> None:
    text = "word " * 60
    lines = paragraph(text.strip(), "- ", "    ")
    assert all(width(line) <= WIDTH for line in lines)
    assert lines[0].startswith("- word") and all(line.startswith("    word") for line in lines[1:])
    assert " ".join(line.strip("- ") for line in lines) == text.strip()


def test_chinese_is_broken_anywhere_but_before_punctuation() -> None:
    text = "共享内存段未被释放，" * 20 + "完。"
    lines = paragraph(text, "", "")
    assert all(width(line) <= WIDTH for line in lines)
    assert max(map(width, lines)) >= WIDTH - 6
    assert "".join(lines) == text and not any(line[0] in "，。" for line in lines)


def test_a_word_in_chinese_stays_whole() -> None:
    word = "cache-server.orphan-segment"
    lines = paragraph("残留" * 18 + word + "残留" * 18, "", "")
    assert any(word in line for line in lines)


def test_a_word_that_is_too_long_is_never_broken() -> None:
    path = "/very/long" * 20
    assert paragraph(f"the file {path} is there", "", "  ") == ["the file", f"  {path}", "  is there"]


def test_a_line_break_of_somebody_else_is_spelled_out() -> None:
    assert paragraph("a\n  READY", "", "") == ["a\\x0a  READY"]
    assert paragraph("", "x", "") == ["x"]


def test_plain_english_is_parted_like_all_other_text() -> None:
    """It has a pattern of its own, which is compiled twenty times faster."""
    text = "a  line, of\twords\n(and more)  "
    assert _WORDS.findall(text) == [piece for piece in _BREAKS.split(text) if piece]
    assert list(_pieces(f"{text}中")) == [*_pieces(text), "中"]
