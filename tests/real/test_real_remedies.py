"""Every remedy of a corpus: typed as shown, then the import, then the doctor (`pytest -m real_environments`).

A handful without a setting; NPUDOCTOR_REMEDIES=1: all of them. Each needs an index of packages.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator

import pytest

from . import environment_bases, mindspore_env
from .conftest import lacking
from .environment_bases import Copy, Unavailable
from .environment_case import Case
from .environment_judging import ask, check, mend, works
from .environment_remedy_cases import QUICK, REMEDIES

ALL = os.environ.get("NPUDOCTOR_REMEDIES") == "1"
CASES = [case for cases in REMEDIES.values() for case in cases if ALL or case.name in QUICK]

pytestmark = [
    pytest.mark.real_environments,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the bases are of wheels for x86-64"),
]


@pytest.fixture
def made(case: Case) -> Iterator[Copy]:
    """A copy of its base, broken as the case says; on the file system of the bases, as it shares files."""
    folder = mindspore_env.cache() / "bases" / f"copy-{os.getpid()}"
    try:
        copy = environment_bases.copy(environment_bases.provide(case.base), folder)
        for step in case.steps:
            step.apply(copy)
        yield copy
    except Unavailable as error:
        lacking(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_typed_heals(case: Case, made: Copy) -> None:
    """The import works afterwards, npudoctor finds nothing more, and it still names the framework."""
    told = ask(case, made)
    assert not works(told), "the case is not what it says"
    profile, said = "full", check(made)
    if said.verdict(case, True) in ("missed", "ready"):
        profile, said = "deep", check(made, "deep")
    assert said.verdict(case, True) in ("found", "warned"), [one["message"] for one in said.loud]
    mended = mend(case, made, told, said, profile)
    assert mended.ending == "mended", (mended.ending, mended.lines, mended.truth)


def test_the_corpus_is_what_it_was() -> None:
    """Its kinds, and which of them CI types."""
    names = [case.name for cases in REMEDIES.values() for case in cases]
    assert len(names) == len(set(names)) >= 50
    assert set(QUICK) <= set(names)
