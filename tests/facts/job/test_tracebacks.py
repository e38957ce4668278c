"""What ended a program, from what a probe told and from what a program wrote."""

from __future__ import annotations

import subprocess
import sys

import pytest

from npudoctor.facts.job.tracebacks import Frame, parse_chain, parse_traceback, stack_of

CHAIN = """\
try:
    import gone_one
except ImportError as error:
    {how}
"""


def written_by(source: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", source], capture_output=True, text=True, check=False
    )
    return done.stderr


@pytest.mark.parametrize(
    ("how", "tied"),
    [
        ("raise RuntimeError('no backend') from error", "cause"),
        ("raise RuntimeError('no backend')", "context"),
    ],
)
def test_a_chain_is_read_from_the_output_of_python(how: str, tied: str) -> None:
    last, first = parse_traceback("noise\n" + written_by(CHAIN.format(how=how)))
    assert (last.type, last.message, last.how) == ("RuntimeError", "no backend", "")
    assert (first.type, first.message, first.how) == (
        "ModuleNotFoundError",
        "No module named 'gone_one'",
        tied,
    )
    assert [frame.file for frame in first.frames] == ["<string>"]


def test_two_tracebacks_that_are_not_tied_are_two_things() -> None:
    (only,) = parse_traceback(written_by("1/0") + "\n" + written_by("[][1]"))
    assert only.text == "IndexError: list index out of range"


def test_a_syntax_error_is_about_its_file() -> None:
    (error,) = parse_traceback(written_by("compile('def f(:', '/job/train.py', 'exec')"))
    assert (error.type, error.path, error.line) == ("SyntaxError", "/job/train.py", 1)
    assert [frame.file for frame in error.frames] == ["<string>"]


def test_nothing_is_made_of_what_is_no_traceback() -> None:
    assert parse_traceback("Traceback (most recent call last):\n") == ()
    assert parse_traceback("ImportError: said somebody\n") == ()


@pytest.mark.parametrize("told", [None, 7, [7], [{"type": 3}], {"type": "E"}])
def test_words_that_make_no_sense_are_left_out(told: object) -> None:
    assert parse_chain(told) == ()


def test_words_of_which_some_make_sense() -> None:
    words = [{"type": "a.E", "message": 3, "frames": [["/x.py", 3, "f"], ["/y.py", "3", "f"]], "path": ["p"]}]
    (error,) = parse_chain(words)
    assert (error.text, error.path, error.frames) == ("a.E", None, (Frame("/x.py", 3, "f"),))
    assert error.is_a("E") and not error.is_a("a")


def test_the_stack_of_a_crash_is_read_outermost_first() -> None:
    source = "import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGSEGV)\nf()"
    stack = stack_of(written_by(source, "-X", "faulthandler"))
    assert [frame.function for frame in stack] == ["<module>", "f"]
    assert stack[-1].line == 3
    assert stack_of("nothing was dumped") == ()


def test_of_several_threads_the_current_one_counts() -> None:
    text = (
        'Thread 0x00007f01 (most recent call first):\n  File "/a.py", line 1 in wait\n\n'
        'Current thread 0x00007f02 (most recent call first):\n  File "/b.py", line 2 in work\n'
        '  File "/c.py", line 3 in <module>\n\nExtension modules: numpy (total: 1)\n'
    )
    assert stack_of(text) == (Frame("/c.py", 3, "<module>"), Frame("/b.py", 2, "work"))
