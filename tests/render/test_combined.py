"""The block that fixes all of it: one pip line, each line once, and nothing that undoes another."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from tests.render.samples import report

from npudoctor.core import messages
from npudoctor.core.model import Finding, Fix, Report, Result, Risk, Severity, Status, Step
from npudoctor.fixing.steps.steps import Command, Export
from npudoctor.render.text import report_text

PIP = ("/opt/py/bin/python3", "-m", "pip")
HEAD = "to fix all of it:"


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    messages.activate("en")
    yield
    messages.activate("en")


def row(name: str, *steps: Step, weight: Severity = Severity.ERROR, root: bool = False) -> Result:
    """One row with one finding, which these steps remedy; none: nothing can be typed."""
    fix = Fix(f"do {name}", steps, risk=Risk.MANUAL, needs_root=root) if steps else None
    finding = Finding(f"{name}.bad", f"{name} is bad", weight, fix=fix)
    return Result(name, "T", "python", Status.PROBLEM, findings=(finding,))


def install(name: str, *words: str) -> Result:
    return row(name, Command((*PIP, "install", *words)))


def block(whole: Report, head: str = HEAD, verbose: bool = False) -> list[str]:
    """The lines of the block; empty where there is none."""
    lines = report_text(whole, verbose=verbose).splitlines()
    if head not in lines:
        return []
    rest = lines[lines.index(head) + 1 :]
    return [line[4:] for line in rest if line.startswith("    ")]


@pytest.mark.parametrize("verbose", [False, True])
def test_all_findings_about_pip_are_one_line_of_pip(verbose: bool) -> None:
    one = install("numpy-version", "mindspore==2.8.0", "numpy<2")
    other = install("scipy-version", "mindspore==2.8.0", "scipy>=1.5.4")
    line = "/opt/py/bin/python3 -m pip install mindspore==2.8.0 'numpy<2' 'scipy>=1.5.4'"
    assert block(report(one, other), verbose=verbose) == [line]


def test_one_thing_to_type_needs_no_block() -> None:
    assert block(report(install("a", "x"))) == []
    assert block(report(install("a", "x"), row("b"))) == []
    assert block(report(install("a", "x"), row("b", Export("X", "1"), weight=Severity.INFO))) == []


def test_what_nobody_can_type_is_not_said_to_be_fixed() -> None:
    whole = report(install("a", "x"), row("b", Command(("mv", "-n", "/a", "/b"))), row("c"))
    assert block(whole) == []
    typed = block(whole, "to fix what commands can fix:")
    assert typed == ["/opt/py/bin/python3 -m pip install x", "mv -n /a /b"]


@pytest.mark.parametrize(
    "rows",
    [
        (install("a", "numpy==1.26.4"), install("b", "numpy==2.1.3")),
        (row("a", Export("X", "1")), row("b", Export("X", "2"))),
    ],
    ids=["two releases", "two values"],
)
def test_lines_that_undo_each_other_are_no_block(rows: tuple[Result, ...]) -> None:
    assert HEAD not in report_text(report(*rows))


def test_lines_of_root_are_not_mixed_with_those_of_a_user() -> None:
    mixed = (install("a", "x"), row("b", Command(("ip", "link", "set", "eth0", "up")), root=True))
    assert report(*mixed).host.user != "root"
    assert block(report(*mixed)) == []


def test_options_of_pip_keep_their_line() -> None:
    again = row("b", Command((*PIP, "install", "--no-deps", "--force-reinstall", "torch==2.9.0")))
    assert block(report(install("a", "x"), again)) == [
        "/opt/py/bin/python3 -m pip install x",
        "/opt/py/bin/python3 -m pip install --no-deps --force-reinstall torch==2.9.0",
    ]


def test_a_shell_takes_it_as_it_stands() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    rows = [row(name, Command(("echo", f"{name} it's $HOME;"))) for name in ("a", "b")]
    text = "\n".join(block(report(*rows)))
    done = subprocess.run([bash, "-e"], input=text, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["a it's $HOME;", "b it's $HOME;"]


def test_a_full_screen_has_no_room_for_it_and_the_long_form_has() -> None:
    rows = [row(f"check-{n}", Command(("echo", f"{n}"))) for n in range(12)]
    assert HEAD not in report_text(report(*rows))
    assert len(block(report(*rows), verbose=True)) == 12
