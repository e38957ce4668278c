"""Which drop-ins are loaded at all; the others are rows that say why not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .command import Npudoctor


def rows(npudoctor: Npudoctor) -> dict[str, dict[str, Any]]:
    """The rows of the drop-ins, none of which could be loaded; the run says that it does not know."""
    done = npudoctor("check", "drop-in", "--format", "json")
    assert done.status == 2, done
    found = {row["check"]: row for row in done.json["results"]}
    for row in found.values():
        assert (row["status"], row["group"], row["needed"]) == ("broken", "drop-in", True)
    return found


def row(npudoctor: Npudoctor, name: str = "sick") -> dict[str, Any]:
    """The only row, of the drop-in of this name."""
    found = rows(npudoctor)
    assert list(found) == [name]
    return found[name]


def test_one_that_others_may_write_is_not_loaded(npudoctor: Npudoctor) -> None:
    path = npudoctor.drop_in("sick")
    for mode in (0o666, 0o664):
        path.chmod(mode)
        assert row(npudoctor)["reason"] == f"{path} is writable by other users"
    path.chmod(0o600)
    assert npudoctor("check", "sick").status == 0


def test_a_directory_or_parent_that_others_may_write_is_not_read(
    npudoctor: Npudoctor, tmp_path: Path
) -> None:
    npudoctor.drop_in("sick")
    for folder in (npudoctor.drop_ins, tmp_path):
        folder.chmod(0o777)
        assert row(npudoctor, "checks.d")["reason"] == f"{folder} is writable by other users"
        folder.chmod(0o755)
    tmp_path.chmod(0o1777)  # sticky, like /tmp: others cannot replace what is ours
    assert npudoctor("check", "sick").status == 0


@pytest.mark.needs_root
def test_one_of_another_user_is_not_loaded(npudoctor: Npudoctor) -> None:
    path = npudoctor.drop_in("sick")
    os.chown(path, 1234, -1)
    assert row(npudoctor)["reason"] == f"{path} belongs to another user"


def test_a_link_is_judged_by_all_that_it_leads_through(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = npudoctor.drop_in("sick")
    shared = tmp_path / "shared"
    shared.mkdir()
    path.rename(shared / "real.py")
    path.symlink_to(shared / "real.py")
    assert npudoctor("check", "sick").status == 0
    shared.chmod(0o777)
    assert row(npudoctor)["reason"] == f"{shared} is writable by other users"
    path.unlink()
    path.symlink_to(path)
    assert "cannot be read" in row(npudoctor)["reason"] or "loop" in row(npudoctor)["reason"]
    path.unlink()
    path.symlink_to("nowhere")
    assert "cannot be read: No such file" in row(npudoctor)["reason"]


def test_what_is_no_check_is_not_loaded(npudoctor: Npudoctor) -> None:
    wanted = {
        "empty": (b"", "a file holds one check, this one holds 0"),
        "other": (b"x = 1\n", "a file holds one check, this one holds 0"),
        "encoding": (b"x = '\xff\xfe'\n", "SyntaxError"),
        "bytes": (b"\0", "null bytes"),
    }
    for name, (content, _reason) in wanted.items():
        npudoctor.drop_in(name).write_bytes(content)
    found = rows(npudoctor)
    assert set(found) == set(wanted)
    for name, (_content, reason) in wanted.items():
        assert reason in found[name]["reason"]


def test_what_is_no_file_is_not_loaded(npudoctor: Npudoctor) -> None:
    os.mkfifo(npudoctor.drop_ins / "pipe.py", 0o600)
    (npudoctor.drop_ins / "folder.py").mkdir()
    found = rows(npudoctor)
    assert found["pipe"]["reason"].endswith("pipe.py is not a regular file")
    assert found["folder"]["reason"].endswith("folder.py cannot be read: Is a directory")


def test_a_name_that_is_taken_replaces_nothing(npudoctor: Npudoctor) -> None:
    reasons = {}
    for name in ("cache_server", "drop_in", "leftovers"):
        npudoctor.drop_in(name, "yield Finding('x.y', 'z')")
        taken = name.replace("_", "-")
        reasons[taken] = f"the name {taken} is already taken"
    done = npudoctor("check", "--expect", "none", "--format", "json")
    rows = [row for row in done.json["results"] if row["group"] == "drop-in"]
    assert {row["check"]: row["reason"] for row in rows} == reasons
    assert [row["status"] for row in rows] == ["broken"] * 3
    assert sum(row["check"] == "cache-server" for row in done.json["results"]) == 2  # the built-in one too
    listed = npudoctor("list", "--format", "json").json
    broken = [{"id": name, "group": "drop-in", "reason": reason} for name, reason in reasons.items()]
    assert sorted(listed["broken"], key=lambda one: one["id"]) == broken
    assert all(check["origin"] == "built-in" for check in listed["checks"])


def test_an_id_must_be_the_files_name_and_words_must_be_words(npudoctor: Npudoctor) -> None:
    path = npudoctor.drop_in("sick")
    path.rename(npudoctor.drop_ins / "other.py")
    assert "'sick' is not the file's name" in row(npudoctor, "other")["reason"]
    (npudoctor.drop_ins / "other.py").unlink()
    npudoctor.drop_in("Sick")
    assert "an id is lower-case words" in row(npudoctor, "Sick")["reason"]


def test_a_directory_that_was_asked_for_must_be_there(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = ("check", "clock", "drop-in", "--expect", "none", "--format", "json")
    named = [str(tmp_path / "none"), str(tmp_path / "file")]
    none, file = npudoctor.each([line] * 2, [{"NPUDOCTOR_CHECKS_DIR": name} for name in named])
    assert none.row("none")["reason"].endswith("none does not exist")
    assert file.row("file")["reason"].endswith("cannot be read: Not a directory")
    for name in ("", "checks.d"):
        assert npudoctor("check", "accelerator", "--expect", "none", NPUDOCTOR_CHECKS_DIR=name).status == 0


def test_one_that_is_broken_may_be_ignored_or_asked_for_by_its_id(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("is_sick", top="1 / 0")
    line = ("check", "is-sick", "accelerator", "--expect", "none", "--ignore")
    *named, ignored, other, shown = npudoctor.each(
        [
            *(("check", name) for name in ("is_sick", "is-sick", "is-sick.bad")),
            (*line, "is-sick"),
            (*line, "is-sick.bad"),
            ("show", "is-sick"),
        ]
    )
    assert [done.status for done in named] == [2] * 3
    assert (ignored.status, other.status, shown.status) == (0, 2, 64)


def test_one_that_is_too_large_is_not_cut(npudoctor: Npudoctor) -> None:
    path = npudoctor.drop_in("sick")
    path.write_bytes(path.read_bytes().ljust((4 << 20) + 1, b"\n"))
    assert row(npudoctor)["reason"] == f"{path} is larger than {4 << 20} bytes"


@pytest.mark.needs_root
def test_whoever_names_one_that_was_refused_is_told_why(npudoctor: Npudoctor) -> None:
    """By its id, by its code, and by whatever command."""
    path = npudoctor.drop_in("my_dropin")
    os.chown(path, 1234, -1)
    why = f"{path} belongs to another user"
    asked = [("check", "my-dropin"), ("check", "my-dropin.bad"), ("check", "my_dropin")]
    others = [("show", "my-dropin"), ("show", "my-dropin.bad"), ("explain", "my-dropin")]
    *ended, fixed = npudoctor.each([*asked, *others, ("fix", "my-dropin", "--yes")])
    for done in ended[:3]:
        assert done.status == 2 and why in " ".join(done.out.split()), done
    for done in ended[3:]:
        assert done.status == 64 and f"my_dropin: this check could not be loaded: {why}" in done.err, done
    assert fixed.status == 2 and why in fixed.out


@pytest.mark.needs_root
def test_where_a_whole_directory_was_refused_an_unknown_name_may_be_of_it(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("my_dropin")
    os.chown(npudoctor.drop_ins, 1234, -1)
    why = f"not loaded: checks.d: {npudoctor.drop_ins} belongs to another user"
    lines = (
        ("check", "my-dropin"),
        ("check", "--ignore", "my-dropin"),
        ("show", "my-dropin"),
        ("fix", "my-dropin"),
        ("explain", "my-dropin"),
    )
    for done in npudoctor.each(lines):
        assert (done.status, done.out) == (64, "") and why in done.err, done
    assert "not loaded" not in npudoctor("check", "no-such", NPUDOCTOR_CHECKS_DIR="").err
