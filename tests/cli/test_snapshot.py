"""snapshot, diff and check --like from the command line: files, statuses, hostile files, time."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from .command import Done, Npudoctor

pytestmark = pytest.mark.once

STRANGER = 12345
SECRET = "hunter2-AB12cd34EF"  # noqa: S105


def machine(folder: Path) -> Npudoctor:
    """The command without drop-ins, so that the variables are the same wherever it is started."""
    npudoctor = Npudoctor(folder)
    npudoctor.variables["NPUDOCTOR_CHECKS_DIR"] = ""
    return npudoctor


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    return machine(tmp_path)


def snapshot(npudoctor: Npudoctor, name: str, **variables: str) -> Any:
    done = npudoctor("snapshot", name, **variables)
    assert (done.status, done.out, done.err) == (0, "", ""), done
    return json.loads((npudoctor.folder / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A snapshot of this machine."""
    return snapshot(machine(tmp_path_factory.mktemp("usual")), "a.json")


def put(npudoctor: Npudoctor, name: str, document: Any) -> str:
    (npudoctor.folder / name).write_text(json.dumps(document), "utf-8")
    return name


def test_it_is_written_whole_and_for_its_owner_alone(npudoctor: Npudoctor) -> None:
    (npudoctor.folder / "mine.json").write_text("before")
    document = snapshot(npudoctor, "mine.json")
    schema = json.loads(npudoctor("schema", "snapshot").out)
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    assert stat.S_IMODE((npudoctor.folder / "mine.json").stat().st_mode) == 0o600
    assert [path.name for path in npudoctor.folder.iterdir() if path.name.startswith(".")] == []


def test_without_a_file_it_is_on_standard_output(npudoctor: Npudoctor) -> None:
    done = npudoctor("snapshot", LANG="zh_CN.UTF-8")
    assert done.status == 0 and done.json["schema"] == "npudoctor.snapshot/1"
    assert done.json["facts"]["system"]["kernel"] == os.uname().release
    assert re.match(r"\d+ facts", done.json["msg"])


def test_the_facts_are_those_of_this_machine(npudoctor: Npudoctor) -> None:
    document = snapshot(npudoctor, "a.json", HCCL_CONNECT_TIMEOUT="600", SOME_TOKEN=SECRET)
    facts = document["facts"]
    assert facts["variables"]["HCCL_CONNECT_TIMEOUT"] == "600" and "SOME_TOKEN" in facts["variables"]
    assert "hunter2" not in json.dumps(document)
    assert facts["packages"] and facts["limits"] and facts["sysctls"]["kernel.pid_max"]
    assert not [row for row in document["unread"] if row.get("crashed")]


@pytest.mark.parametrize("target", ["link", "nowhere/x.json", "folder"])
def test_what_is_no_file_of_ours_is_not_replaced(npudoctor: Npudoctor, target: str) -> None:
    (npudoctor.folder / "folder").mkdir()
    if target == "link":
        if os.geteuid() != 0:
            pytest.skip("only root can make a link of somebody else")
        shared = npudoctor.folder / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        (npudoctor.folder / "secret").write_text("mine")
        (shared / "link").symlink_to(npudoctor.folder / "secret")
        os.chown(shared / "link", STRANGER, STRANGER, follow_symlinks=False)
        target = "shared/link"
    done = npudoctor("snapshot", target)
    assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done


def test_a_machine_is_like_itself(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "a.json", usual)
    snapshot(npudoctor, "b.json")
    done = npudoctor("diff", "a.json", "b.json")
    assert done.status == 0 and done.out.splitlines()[-1].startswith("alike"), done


def test_a_difference_is_1_in_text_and_json(npudoctor: Npudoctor, usual: Any) -> None:
    both = ("diff", put(npudoctor, "a.json", usual), "b.json")
    snapshot(npudoctor, "b.json", HCCL_EXEC_TIMEOUT="60")
    text, done, schema = npudoctor.each([both, (*both, "--format", "json"), ("schema", "diff")])
    assert text.status == 1 and "HCCL_EXEC_TIMEOUT  none" in text.out
    Draft202012Validator(schema.json).validate(done.json)
    (difference,) = done.json["differences"]
    assert (done.status, difference["fact"], difference["values"]) == (1, "HCCL_EXEC_TIMEOUT", [None, "60"])


def test_standard_input_is_one_side(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "a.json", usual)
    put(npudoctor, "b.json", usual)
    assert npudoctor.shell('"$@" snapshot | "$@" diff a.json -').status == 0
    assert npudoctor.shell('"$@" diff a.json <(cat b.json)').status == 0
    assert npudoctor.shell('cat b.json | "$@" diff /dev/stdin <(cat a.json)').status == 0
    assert npudoctor("diff", "-", "-").status == 64
    names = ("/dev/fd/77", "/dev/fd/x", "/proc/self/fd/../environ", "/dev/fd/1")
    for done in npudoctor.each([("diff", "a.json", name) for name in names]):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done


def test_what_is_unknown_on_one_side_is_2(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "a.json", usual)
    less = {name: section for name, section in usual["facts"].items() if name != "packages"}
    assert npudoctor("diff", "a.json", put(npudoctor, "b.json", {**usual, "facts": less})).status == 2


def test_reports_are_compared_too(npudoctor: Npudoctor, usual: Any) -> None:
    argv = ("check", "--format", "json", "--expect", "none", "--output")
    for name, value in (("a.json", "60"), ("b.json", "60"), ("c.json", "70")):
        npudoctor(*argv, name, HCCL_EXEC_TIMEOUT=value)
    document = deepcopy(usual)
    document["facts"]["variables"]["HCCL_EXEC_TIMEOUT"] = "60"
    put(npudoctor, "s.json", document)
    alike, different, other = npudoctor.each(
        [("diff", "a.json", "b.json"), ("diff", "a.json", "c.json"), ("diff", "s.json", "a.json")]
    )
    assert (alike.status, different.status, other.status) == (0, 1, 2)
    assert "HCCL_EXEC_TIMEOUT" in different.out


HOSTILE = (
    "", "[]", '{"schema": "npudoctor.fix/1"}', "{" * 100_000,
    '{"schema": "npudoctor.snapshot/1", "facts": NaN}',
)  # fmt: skip


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory, usual: Any) -> list[Done]:
    """What is said of each that is hostile, on either side and as a pattern."""
    npudoctor = Npudoctor(tmp_path_factory.mktemp("hostile"))
    put(npudoctor, "a.json", usual)
    lines = []
    for number, content in enumerate(HOSTILE):
        (npudoctor.folder / f"{number}.json").write_text(content)
        lines += [("diff", "a.json", f"{number}.json"), ("diff", f"{number}.json", "a.json")]
        lines += [("check", "--like", f"{number}.json")]
    return npudoctor.each(lines)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_what_is_no_snapshot_is_one_line_and_64(refused: list[Done], number: int) -> None:
    for done in refused[3 * number : 3 * number + 3]:
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done
        assert f"{number}.json" in done.err


def test_what_is_no_file_is_not_opened(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "a.json", usual)
    os.mkfifo(npudoctor.folder / "pipe")
    names = ("pipe", "nowhere", "/dev/zero", "home", "a.json/b")
    ended = npudoctor.each([("diff", "a.json", name) for name in names])
    ended += npudoctor.each([("check", "--like", name) for name in names])
    ended += [npudoctor("check", "--like", "pipe")]
    for done in ended:
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done


def test_control_characters_reach_no_terminal(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "a.json", usual)
    document = deepcopy(usual)
    document["facts"]["packages"]["torch\x1b[2J"] = "1\x1b]0;x\x07\n\u202e"
    document["facts"]["\x1b[31m"] = {"a": "b"}
    document["facts"]["packages"]["numpy\ud800"] = "\udfff"
    document["host"]["name"] = "\x1b[31mnode\n"
    put(npudoctor, "b.json", document)
    both = ("diff", "a.json", "b.json")
    *texts, told = npudoctor.each(
        [both, ("check", "clock", "--like", "b.json", "-v"), (*both, "--format", "json")]
    )
    assert texts[0].status == 1
    for done in texts:
        assert "\x1b" not in done.out + done.err and "\u202e" not in done.out
        assert "torch" in done.out
    assert told.status == 1 and "\x1b" not in told.out


def test_like_has_a_row_only_with_its_option(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "good.json", usual)
    argv = ("check", "--format", "json", "--expect", "none")
    assert "like-snapshot" not in npudoctor(*argv).out
    alike = npudoctor(*argv, "--like", "good.json")
    assert alike.row("like-snapshot")["status"] == "ok", alike.row("like-snapshot")
    document = deepcopy(usual)
    document["facts"]["packages"]["torch"] = "2.1.0"
    put(npudoctor, "good.json", document)
    done = npudoctor(*argv, "numpy-version", "--like", "good.json")
    (finding,) = done.row("like-snapshot")["findings"]
    assert done.status == 1 and finding["code"] == "like-snapshot.version"
    assert "torch: none here, 2.1.0 there" in finding["message"]
    assert npudoctor("check", "like-snapshot", "--format", "json").row("like-snapshot")["status"] == "skipped"


def test_a_real_limit_is_seen_by_both(npudoctor: Npudoctor, usual: Any) -> None:
    put(npudoctor, "good.json", usual)
    lower = 'ulimit -Sn 512; "$@"'
    assert npudoctor.shell(f"{lower} snapshot low.json").status == 0
    done = npudoctor("diff", "good.json", "low.json", "--format", "json")
    changed = {(one["section"], one["fact"]): one["values"][1] for one in done.json["differences"]}
    assert changed == {("limits", "Max open files, soft"): 512}
    argv = "check clock --like good.json --format json --expect none"
    row = npudoctor.shell(f"{lower} {argv}").row("like-snapshot")
    assert [one["code"] for one in row["findings"]] == ["like-snapshot.limit"]
    assert npudoctor(*argv.replace("good", "low").split()).row("like-snapshot")["findings"] == []


@pytest.mark.needs_root
def test_real_networks_differ_in_mtu_and_interfaces(npudoctor: Npudoctor, need: Callable[..., None]) -> None:
    need("unshare", "ip")
    for name, mtu, more in (("a", 9000, "ip link add d1 type bridge;"), ("b", 1500, "")):
        script = f"set -e; ip link add d0 type bridge; ip link set d0 mtu {mtu} up; {more}"
        line = f'unshare --net sh -c \'{script} exec "$@"\' sh "$@" snapshot {name}.json'
        assert npudoctor.shell(line).status == 0
    done = npudoctor("diff", "a.json", "b.json", "--format", "json")
    network = {one["fact"]: one["values"] for one in done.json["differences"] if one["section"] == "network"}
    assert network.pop("d0 MTU") == [9000, 1500]
    assert set(network) == {"d1 state", "d1 kind", "d1 MTU"} and network["d1 kind"] == ["bridge", None]


def test_the_block_for_an_issue(npudoctor: Npudoctor) -> None:
    done = npudoctor("snapshot", "--paste", HCCL_CONNECT_TIMEOUT="600", LANG="zh_CN.UTF-8")
    lines = done.out.splitlines()
    assert done.status == 0 and (lines[0], lines[-1]) == ("```text", "```") and len(lines) <= 60
    assert "  HCCL_CONNECT_TIMEOUT=600" in lines and str(npudoctor.home) not in done.out
    flood = "; ".join(f"export HCCL_X{number}=1" for number in range(100))
    low = npudoctor.shell(f'ulimit -Sn 512; {flood}; "$@" snapshot --paste').out.splitlines()
    assert len(low) == 60 and "  warning file-limits.low" in low and "more lines" in low[-2]
    written = npudoctor("snapshot", "--paste", "block.md")
    assert written.out == "" and (npudoctor.folder / "block.md").read_text().startswith("```text\n")


def test_an_image_has_a_snapshot(npudoctor: Npudoctor, tmp_path: Path, usual: Any) -> None:
    image = tmp_path / "image"
    (image / "etc").mkdir(parents=True)
    (image / "etc/os-release").write_text('PRETTY_NAME="openEuler 22.03"\n')
    done = npudoctor("snapshot", "--root", str(image))
    assert done.status == 0 and done.json["facts"]["system"]["distribution"] == "openEuler 22.03"
    assert {"limits", "variables"} <= {row["section"] for row in done.json["unread"]}
    argv = ("check", "clock", "--root", str(image), "--like", put(npudoctor, "good.json", usual))
    row = npudoctor(*argv, "--format", "json").row("like-snapshot")
    assert "not running" not in str(row["reason"]) and "openEuler 22.03 here" in str(row["findings"])
