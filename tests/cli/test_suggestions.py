"""A mistyped name is answered with the one that may have been meant, wherever a person names something."""

from __future__ import annotations

import pytest

from npudoctor.cli.companions.grammar import list_known_words
from npudoctor.core.suggestions import near_names
from npudoctor.rehearsal.faults import FAULTS

from .command import Done, Npudoctor


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("scpy", "scipy-version"),
        ("numpi", "numpy-version"),
        ("hccl-prots", "hccl-ports"),
        ("fire-wall", "firewall"),
        ("cache", "cache-server"),
        ("lefovers", "leftovers"),
        ("orphan-segmnt", "cache-server.orphan-segment"),
        ("stale-lok", "temp-files.stale-lock"),
    ],
)
def test_of_checks_groups_and_codes(word: str, meant: str) -> None:
    words = list_known_words()
    near = near_names(word, [*words.ids, *words.groups, *words.codes])
    assert meant in near and len(near) <= 3


@pytest.mark.parametrize(
    ("word", "meant"),
    [("ded-cache", "dead-cache-server"), ("full_tmp", "full-tmp"), ("old-scpy", "old-scipy")],
)
def test_of_faults(word: str, meant: str) -> None:
    assert near_names(word, sorted(FAULTS)) == [meant]


@pytest.mark.parametrize("word", ["", "x", "zzzzzz", "-", "..", "qwertz-uiop"])
def test_what_comes_near_nothing_suggests_nothing(word: str) -> None:
    assert near_names(word, ["cache-server", "cache-server.orphan-segment", "clock"]) == []


MISTYPED = {
    ("rehearse", "ded-cache"): "no such fault: ded-cache; did you mean dead-cache-server?",
    ("show", "scpy"): "no such check or code: scpy; did you mean scipy-version?",
    ("fix", "cach-server"): "did you mean cache-server?",
    ("schema", "reprot"): "no such document: reprot; did you mean report?",
    ("env", "--shell", "bsh"): "did you mean bash?",
    ("env", "--format", "dokcer"): "did you mean docker?",
    ("completion", "fsh"): "did you mean fish?",
    ("check", "--format", "jsno"): "did you mean json?",
    ("check", "--scope", "jobs"): "did you mean job?",
    ("check", "--profile", "quik"): "did you mean quick?",
    ("check", "--expect", "npus"): "did you mean npu?",
    ("check", "--color", "alway"): "did you mean always?",
    ("fix", "--risk", "saef"): "did you mean safe?",
    ("fleet", "chekc"): "no such command: chekc; did you mean check?",
    ("fleet", "report", "--nodes", "redy"): "did you mean ready?",
    ("fleet", "report", "--format", "htlm"): "did you mean html?",
    ("fleet", "check", "-w", "n1", "--engine", "slrum"): "did you mean slurm?",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Done]:
    return dict(zip(MISTYPED, Npudoctor(tmp_path_factory.mktemp("mistyped")).each(list(MISTYPED))))


@pytest.mark.parametrize("words", MISTYPED)
def test_wherever_something_is_named(ended: dict[tuple[str, ...], Done], words: tuple[str, ...]) -> None:
    done = ended[words]
    assert (done.status, done.out) == (64, "")
    assert MISTYPED[words] in done.err and done.err.count("\n") == 1
