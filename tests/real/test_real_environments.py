"""Broken environments, really made and really imported (`pytest -m real_environments`).

A dozen without a setting. NPUDOCTOR_ENVIRONMENTS=all: all of them, with 10 GB of bases;
NPUDOCTOR_REMEDIES=1: what npudoctor shows is run, and the import tried again.
NPUDOCTOR_DEEP=1: profile deep is asked too, of those that work and those that full did not find.
By several processes too: `-n 2 --dist worksteal`.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from . import environment_bases, mindspore_env
from .conftest import lacking
from .environment_bases import Base, Copy, Unavailable
from .environment_case import FRAMEWORKS, Case
from .environment_cases import CASES
from .environment_judging import check, mend, truth, works
from .environment_table import Row

ALL = os.environ.get("NPUDOCTOR_ENVIRONMENTS") == "all"
REMEDIES = os.environ.get("NPUDOCTOR_REMEDIES") == "1"
DEEP = os.environ.get("NPUDOCTOR_DEEP") == "1"
# By their bases: the first are judged while pip still makes the last.
ORDER = tuple(FRAMEWORKS)
CHOSEN = sorted((case for case in CASES if ALL or case.quick), key=lambda case: ORDER.index(case.base))
PIPS = 2  # at once; one alone waits now for the index, now for the disk

pytestmark = [
    pytest.mark.real_environments,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the bases are of wheels for x86-64"),
]


@pytest.fixture(scope="session")
def bases(request: pytest.FixtureRequest) -> Iterator[Mapping[Base, Future[Path]]]:
    """Those of the chosen cases, two being made at a time."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    chosen = {item.callspec.params["case"] for item in items if "made" in item.fixturenames}
    wanted = [base for base in ORDER if any(case.base == base for case in CHOSEN if case in chosen)]
    with ThreadPoolExecutor(PIPS) as pool:
        yield {base: pool.submit(environment_bases.provide, base) for base in wanted}


@pytest.fixture
def made(case: Case, bases: Mapping[Base, Future[Path]]) -> Iterator[Copy]:
    """A copy of its base, broken as the case says; on the file system of the bases, as it shares files."""
    folder = mindspore_env.cache() / "bases" / f"copy-{os.getpid()}"
    try:
        copy = environment_bases.copy(bases[case.base].result(), folder)
        for step in case.steps:
            step.apply(copy)
        yield copy
    except Unavailable as error:
        lacking(str(error))
    finally:
        for place in (folder, environment_bases.shared_folder()):
            shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_what_is_said_is_true(case: Case, made: Copy, record_property: pytest.FixtureRequest) -> None:
    """What does not import is said, by its name, and of what works there is no error."""
    began = time.monotonic()
    told = truth(case, made)
    broken = not works(told)
    said = check(made)
    verdict = said.verdict(case, broken)
    # Full's findings are among those of deep: where one names it, deep names it too.
    deep = check(made, "deep").verdict(case, broken) if DEEP and verdict != "found" else verdict
    ending = ""
    if REMEDIES and verdict in ("found", "warned"):
        mended = mend(case, made, told, said)
        ending = f"{mended.ending}: {'; '.join(mended.lines)}"
        if mended.ending not in ("mended", "no line"):
            ending += f" {dict(mended.truth)}"
    seconds = time.monotonic() - began
    row = Row(case.name, case.kind, case.base.python, broken, verdict, deep, said.codes, ending, seconds)
    record_property("environment", tuple(row))  # type: ignore[operator]
    assert broken is bool(case.names), f"the case is not what it says: {told}"
    assert verdict in ("found", "quiet", *(["warned"] if case.warned else [])), [
        one["message"] for one in said.loud
    ]
    allowed = ["found", "quiet", *(["warned"] if case.warned else [])]
    if case.name == "pth-import-gone" and os.geteuid() == 0:
        allowed.append("undetermined")  # root starts no Python whose .pth files import what nobody knows
    assert deep in allowed
    assert not ending.startswith("harmed"), ending


def test_there_are_enough() -> None:
    """Over all supported releases of Python; and a dozen in CI."""
    broken = [case for case in CASES if case.names]
    assert len(broken) >= 60
    assert len(CASES) - len(broken) >= 25
    assert {case.base.python for case in CASES} == {"3.9", "3.10", "3.11", "3.12", "3.13"}
    assert len([case for case in CASES if case.quick]) >= 12
    assert all(case.base.cheap for case in CASES if case.quick)
    assert len({case.name for case in CASES}) == len(CASES)


def test_bases_are_kept_apart_from_the_checkout() -> None:
    """A second run makes none of them once more."""
    assert Path(__file__).resolve().parents[2] not in mindspore_env.cache().resolve().parents
