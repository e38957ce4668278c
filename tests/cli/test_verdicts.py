"""The exit status is the verdict, and the JSON says the same."""

from __future__ import annotations

import pytest

from .command import Done, Npudoctor

BAD = 'yield Finding("sick.bad", "it is bad", evidence=("seen: 5",))'
ODD = 'yield Finding("sick.odd", "it is odd")'
NOTE = 'yield Finding("sick.note", "worth knowing")'
UNKNOWN = 'raise Unknown("could not look")\nyield'
ADVISORY = 'raise Unknown("only root sees it", advisory=True)\nyield'
SKIP = 'raise Skip("does not apply")\nyield'

VERDICTS = {0: "ready", 1: "not_ready", 2: "undetermined"}


ENDINGS: list[tuple[str, tuple[str, ...], int, str]] = [
    ("return\nyield", (), 0, "ok"),
    (NOTE, (), 0, "ok"),
    (ODD, (), 0, "problem"),
    (ODD, ("--fail-on", "warning"), 1, "problem"),
    (BAD, (), 1, "problem"),
    (BAD, ("--ignore", "sick.bad"), 0, "problem"),
    (BAD, ("--ignore", "sick=a known one"), 0, "problem"),
    (BAD, ("--ignore", "sick.odd"), 1, "problem"),
    (UNKNOWN, (), 2, "unknown"),
    (UNKNOWN, ("--ignore", "sick"), 0, "unknown"),
    (UNKNOWN, ("--ignore", "sick.bad"), 2, "unknown"),
    (ADVISORY, (), 0, "unknown"),
    (BAD + "\n" + UNKNOWN, (), 1, "unknown"),
    (SKIP, (), 0, "skipped"),
    (BAD, ("--scope", "job"), 0, "skipped"),
    ("1 / 0\nyield", (), 2, "crashed"),
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """How each of ENDINGS ends the run, with drop-ins of its own."""
    npudoctor = Npudoctor(tmp_path_factory.mktemp("endings"))
    line = ("check", "sick", "accelerator", "--expect", "none", "--format", "json")
    lines, folders = [], []
    for number, (body, arguments, _status, _row) in enumerate(ENDINGS):
        npudoctor.drop_ins = npudoctor.folder / f"checks-{number}"
        npudoctor.drop_ins.mkdir(mode=0o755)
        npudoctor.drop_in("sick", body)
        lines.append((*line, *arguments))
        folders.append({"NPUDOCTOR_CHECKS_DIR": str(npudoctor.drop_ins)})
    return npudoctor.each(lines, folders)


@pytest.mark.parametrize("number", range(len(ENDINGS)))
def test_each_ending_of_a_check_decides_as_promised(ended: list[Done], number: int) -> None:
    _body, _arguments, status, row = ENDINGS[number]
    done, report = ended[number], ended[number].json
    assert (done.status, done.row("sick")["status"]) == (status, row), done.err
    assert (report["exit_code"], report["verdict"]) == (status, VERDICTS[status])
    assert (report["failed"], report["changed"]) == (status != 0, False)


def test_nothing_to_judge_is_undetermined(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", SKIP)
    assert npudoctor("check", "sick").status == 2


def test_text_and_quiet_end_with_the_same_status(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", BAD)
    text, quiet, more = (
        npudoctor("check", "sick"),
        *npudoctor.each([("check", "sick", "-q"), ("check", "sick", "-v")]),
    )
    assert (text.status, quiet.status) == (1, 1)
    assert "error sick.bad: it is bad\n" in text.out and "seen: 5" not in text.out
    assert "- seen: 5" in more.out
    assert text.out.splitlines()[-1].startswith("NOT READY: 1 error")
    assert quiet.out == "not ready: 1 problem (sick.bad)\n"


def test_a_check_is_selected_by_id_group_and_code(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", BAD)
    names = ("sick", "drop-in", "sick.bad")
    for done in npudoctor.each([("check", name, "--format", "json") for name in names]):
        assert [row["check"] for row in done.json["results"]] == ["sick"]


def test_an_ignored_finding_stays_and_says_why(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", BAD)
    done = npudoctor("check", "sick", "--format", "json", "--ignore", "sick.bad=until the move = in May")
    (finding,) = done.row("sick")["findings"]
    assert finding["ignored"] == {"reason": "until the move = in May"}
    assert finding["severity"] == "error"
    assert done.json["counts"]["ignored"] == 1 and done.json["counts"]["errors"] == 0


def test_the_whole_machine_is_judged_under_every_scope_and_profile(npudoctor: Npudoctor) -> None:
    tried = ((), ("--scope", "node"), ("--scope", "job"), ("--profile", "quick"))
    line = ("check", "--expect", "none", "--format", "json")
    for arguments, done in zip(tried, npudoctor.each([(*line, *arguments) for arguments in tried])):
        assert done.row("accelerator")["status"] == "ok", arguments
        assert len(done.json["results"]) > 5
    wanted = npudoctor.each([("check", "--expect", "npu", "-q", *arguments) for arguments in tried])
    assert [done.status for done in wanted] == [1] * 4


def test_what_is_expected_is_asked_beside_a_selection(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", NOTE)
    image = ("--root", str(npudoctor.home))
    both, alone = ["accelerator", "sick"], (0, ["sick"])
    lines = [
        *(("sick", "--expect", kind, *image) for kind in ("npu", "gpu")),
        *(("sick", "accelerator", "--expect", kind, *image) for kind in ("npu", "gpu")),
        *(("sick", "--expect", kind) for kind in ("npu", "gpu")),
        *(("sick", "--expect", kind, *image) for kind in ("auto", "none")),
    ]
    ended = npudoctor.each([("check", *line, "--format", "json") for line in lines])
    found = [(done.status, sorted(row["check"] for row in done.json["results"])) for done in ended]
    assert [names for _status, names in found[:6]] == [both] * 6
    assert 1 in [status for status, _names in found[4:6]], "a machine with both"
    assert found[6:] == [alone, alone]
    for kind in ("npu", "gpu"):  # of the machine, not of this run
        done = npudoctor("check", "sick", *image, "--format", "json", NPUDOCTOR_EXPECT=kind)
        assert (done.status, [row["check"] for row in done.json["results"]]) == alone
