"""The files and devices of a job, taken for real: on small mounts, under limits, with calls refused."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import pytest
from tests.trial.killing import left_after_kills
from tests.trial.refusing import O_TMPFILE_BIT, refused_calls, refusing
from tests.trial.starting import default_acl, refusals, tried

from npudoctor.trial.trials import Trial

pytestmark = pytest.mark.whole
ABSENT = {errno.ENOENT}  # /usr/tmp
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
STEPS = [
    *("device", "device", "device", "proc", "proc", "terminal", "remover", "large", "temporary", "lock"),
    *("execute", "many", "again", "own-folder", "rename", "socket"),
]  # fmt: skip


def folder(path: Path, name: str = "HOME", makes: bool = False, locks: bool = True) -> dict[str, object]:
    return {"name": name, "path": str(path), "makes": makes, "locks": locks}


def files(
    temporary: Path,
    *before: str,
    limits: Optional[dict[int, int]] = None,
    folders: Sequence[dict[str, object]] = (),
    python: str = sys.executable,
    existing: Sequence[str] = (),
    names: int = 2,
) -> Trial:
    questions = {"folders": folders, "existing": existing, "names": names}
    return tried("files", limits, (*before, "env", f"TMPDIR={temporary}"), python, **questions)


def mounted(line: str) -> tuple[str, ...]:
    """Starts a program behind this line, with mounts of its own."""
    return ("unshare", "-m", "sh", "-c", f'{line}; exec "$@"', "sh")


def test_all_is_given_and_nothing_is_left(tmp_path: Path) -> None:
    trial = files(tmp_path, folders=[folder(tmp_path / "cache/of/torch", makes=True)])
    assert refusals(trial) == {} and (trial.hung, trial.died) == (None, None)
    assert [attempt.facts["step"] for attempt in trial.attempts] == [*STEPS, "folder"]
    last = {attempt.what: attempt for attempt in trial.attempts}[f"write {tmp_path}/cache/of/torch"]
    assert last.facts["at"] == str(tmp_path) and os.listdir(tmp_path) == []


def test_without_unnamed_files_a_name_is_made_and_removed(tmp_path: Path) -> None:
    without = refusing("openat", errno.EOPNOTSUPP, 2, O_TMPFILE_BIT)
    trial = files(tmp_path, *refused_calls(without))
    assert refusals(trial) == {} and trial.died is None and os.listdir(tmp_path) == []


def test_names_are_made_without_a_session(tmp_path: Path) -> None:
    trial = files(tmp_path, *refused_calls(refusing("setsid", errno.EPERM)))
    assert refusals(trial) == {} and os.listdir(tmp_path) == []
    assert {"rename", "socket"} <= {attempt.facts["step"] for attempt in trial.attempts}


def test_no_name_is_made_where_nobody_would_remove_it(tmp_path: Path) -> None:
    no_child = refusing("clone", errno.EAGAIN)
    trial = files(tmp_path, *refused_calls(no_child))
    assert refusals(trial) == {"start a process": errno.EAGAIN}
    assert not {"rename", "socket"} & {attempt.facts["step"] for attempt in trial.attempts}
    trial = files(tmp_path, *refused_calls(no_child, refusing("openat", errno.EOPNOTSUPP, 2, O_TMPFILE_BIT)))
    assert (
        {errno.EAGAIN, errno.ECHILD} <= set(refusals(trial).values()) <= {*ABSENT, errno.EAGAIN, errno.ECHILD}
    )


@pytest.mark.parametrize(
    ("limit", "wanted"), [(0, {"large", "temporary"}), (1 << 20, {"large"}), (1 << 30, set())]
)
def test_the_size_of_files(tmp_path: Path, limit: int, wanted: set[str]) -> None:
    trial = files(tmp_path, limits={resource.RLIMIT_FSIZE: limit})
    too_large = [attempt for attempt in trial.refused() if attempt.number == errno.EFBIG]
    assert {attempt.facts["step"] for attempt in too_large} == wanted


@pytest.mark.parametrize(
    ("length", "refused", "wanted"),
    [(73, [], []), (74, [108], [34]), (75, [109], [34]), (76, [110, 108], [34, 32])],
)
def test_the_length_of_a_socket(tmp_path: Path, length: int, refused: list[int], wanted: list[int]) -> None:
    with_name = tmp_path
    while len(str(with_name)) < length - 1:
        with_name /= "x" * min(100, length - len(str(with_name)) - 1)
    if len(str(with_name)) != length:
        pytest.skip("the folder of this test is too long already")
    with_name.mkdir(parents=True)
    trial = files(with_name)
    sockets = [attempt for attempt in trial.refused() if attempt.facts["step"] == "socket"]
    assert [attempt.facts["length"] for attempt in sockets] == refused
    assert [attempt.facts["added"] for attempt in sockets] == wanted
    assert os.listdir(with_name) == []
    if refused:
        instead = [attempt for attempt in trial.attempts if attempt.facts["step"] == "instead"]
        assert instead and not instead[0].refused and "falls_back" in trial.facts()


def test_each_place_is_locked_once(tmp_path: Path) -> None:
    """Also where a folder that is missing would be made there."""
    (tmp_path / "home").mkdir()
    folders = [
        folder(tmp_path / "home", "working directory", locks=False),
        folder(tmp_path / "home/.cache", "XDG_CACHE_HOME", makes=True),
        folder(tmp_path / "home/.triton/cache", "TRITON_CACHE_DIR", makes=True),
    ]
    trial = files(tmp_path, folders=folders)
    locked = [attempt.facts["path"] for attempt in trial.attempts if attempt.facts["step"] == "lock"]
    assert locked == [str(tmp_path), str(tmp_path / "home/.cache")]


@pytest.mark.parametrize(("call", "error"), [("flock", errno.ENOLCK), ("bind", errno.EPERM)])
def test_a_call_that_is_refused(tmp_path: Path, call: str, error: int) -> None:
    trial = files(tmp_path, *refused_calls(refusing(call, error)), folders=[folder(tmp_path)])
    assert set(refusals(trial).values()) == {error}
    assert {attempt.facts["step"] for attempt in trial.refused()} == {"lock" if call == "flock" else "socket"}


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("size=64k", {}),
        ("size=64k,noexec", {"execute from": errno.EPERM}),
        ("size=64k,ro", {"write": errno.EROFS}),
        ("size=64k,nr_inodes=1", {"write": errno.ENOSPC}),
    ],
)
def test_mounts(tmp_path: Path, options: str, refused: dict[str, int]) -> None:
    trial = files(tmp_path, *mounted(f"mount -t tmpfs -o {options} t {tmp_path}"))
    assert {what.partition(" /")[0]: number for what, number in refusals(trial).items()} == refused
    # As tempfile does: the next one is taken.
    (chosen,) = (a for a in trial.attempts if a.facts["step"] == "temporary" and not a.refused)
    assert (chosen.facts["path"] == str(tmp_path)) is ("write" not in refused)


@pytest.mark.needs_root
def test_a_folder_that_is_append_only() -> None:
    """As tempfile does, which cannot remove its first file: the next one is taken, and nothing is left."""
    made = "mount -t tmpfs t /mnt; mkdir -m 1777 /mnt/kept; chattr +a /mnt/kept"
    told = """[ -z "$(ls /mnt/kept)" ] || echo '{"what": "left", "number": 1}'"""
    trial = files(Path("/mnt/kept"), *mounted(made), "sh", "-c", f'"$@"; {told}', "sh")
    assert refusals(trial) == {"write /mnt/kept": errno.EPERM}
    (chosen,) = (a for a in trial.attempts if a.facts["step"] == "temporary" and not a.refused)
    assert chosen.facts["path"] == "/tmp"


def test_a_filter_that_lets_nothing_be_removed(tmp_path: Path) -> None:
    trial = files(tmp_path, *refused_calls(refusing("unlink", errno.EPERM)))
    assert refusals(trial)[f"write {tmp_path}"] == errno.EPERM and os.listdir(tmp_path) == []


@pytest.mark.needs_root
@pytest.mark.parametrize(("names", "refused"), [(2, {}), (3, {"make 3 files in": errno.ENOSPC})])
def test_few_names_are_left(tmp_path: Path, names: int, refused: dict[str, int]) -> None:
    trial = files(tmp_path, *mounted(f"mount -t tmpfs -o nr_inodes=3 t {tmp_path}"), names=names)
    assert {what.partition(" /")[0]: number for what, number in refusals(trial).items()} == refused
    assert trial.facts()["made"] == 2


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("owner", "refused"),
    [(4, {"again", "own-folder", "socket"}), (6, {"own-folder"}), (7, set())],
)
def test_a_default_acl_that_takes_from_the_owner(owner: int, refused: set[str]) -> None:
    made = f"mount -t tmpfs -o mode=1777 t /mnt; {default_acl('/mnt', owner)}"
    trial = files(Path("/mnt"), *mounted(made), *AS_NOBODY, python="/usr/bin/python3")
    assert {attempt.facts["step"] for attempt in trial.refused()} == refused


@pytest.mark.needs_root
@pytest.mark.parametrize(("blocks", "full"), [(2, True), (1, False)])
def test_a_full_file_system(tmp_path: Path, blocks: int, full: bool) -> None:
    fill = f"mount -t tmpfs -o size=8k t {tmp_path}; head -c {4096 * blocks} /dev/zero > {tmp_path}/full"
    refused = refusals(files(tmp_path, *mounted(fill)))
    assert (errno.ENOSPC in refused.values()) is full


@pytest.mark.needs_root
def test_no_temporary_folder_at_all(tmp_path: Path) -> None:
    read_only = "; ".join(f"mount -o bind,ro {place} {place}" for place in ("/tmp", "/var/tmp"))
    trial = files(tmp_path / "gone", *mounted(f"{read_only}; cd /proc"))
    refused = [a.number for a in trial.refused() if a.facts["step"] == "temporary"]
    assert refused[:3] == [errno.ENOENT, errno.EROFS, errno.EROFS] and len(refused) == 5
    assert not {"rename", "socket"} & {attempt.facts["step"] for attempt in trial.attempts}


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("mount --bind /dev/zero /dev/null", {"/dev/null": errno.ENODEV}),
        ("mount -t tmpfs t /dev/pts", {"/dev/ptmx": errno.ENODEV}),
        (
            "mount -t tmpfs t /dev",
            dict.fromkeys(("/dev/null", "/dev/zero", "/dev/urandom", "/dev/ptmx"), errno.ENOENT),
        ),
    ],
)
def test_devices(tmp_path: Path, line: str, refused: dict[str, int]) -> None:
    trial = files(tmp_path, *mounted(line))
    assert {attempt.facts["path"]: attempt.number for attempt in trial.refused()} == refused


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("mount --bind /dev/full /proc/meminfo", 0),
        ("touch $0 && mount --bind $0 /proc/meminfo", errno.ENODATA),
    ],
)
def test_what_the_kernel_says_of_memory(tmp_path: Path, line: str, number: int) -> None:
    trial = files(tmp_path, *mounted(line.replace("$0", f"{tmp_path}/empty")))
    assert refusals(trial).get("read /proc/meminfo", 0) == number


@pytest.mark.needs_root
def test_a_proc_without_this_process(tmp_path: Path) -> None:
    """A chroot in which nobody mounted it; then the /proc of an outer pid namespace."""
    kept = f"{tmp_path}/kept"
    line = f"cp /proc/meminfo {kept}; mount -t tmpfs t /proc; cp {kept} /proc/meminfo"
    trial = files(tmp_path, *mounted(line))
    assert refusals(trial) == {"find this process": errno.ENOENT}
    trial = files(tmp_path, "unshare", "--pid", "--fork")
    assert refusals(trial) == {"find this process": errno.ESRCH}


@pytest.mark.needs_root
@pytest.mark.parametrize(("umask", "number"), [("0177", errno.EACCES), ("0777", errno.EACCES), ("0077", 0)])
def test_a_folder_that_shuts_its_owner_out(umask: str, number: int) -> None:
    made = "mount -t tmpfs -o mode=1777 t /mnt"
    masked = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    trial = files(Path("/mnt"), *mounted(made), *AS_NOBODY, *masked, python="/usr/bin/python3")
    assert refusals(trial).get("make a folder in /mnt", 0) == number
    assert trial.facts()["umask"] == int(umask, 8) and trial.died is None


@pytest.mark.needs_root
def test_a_folder_that_shuts_its_owner_out_is_removed() -> None:
    line = "mount -t tmpfs -o mode=1777 t /mnt"
    masked = ("sh", "-c", 'umask 0177; "$@"; ls -A /mnt >&2', "sh")
    answer = files(Path("/mnt"), *mounted(line), *AS_NOBODY, *masked, python="/usr/bin/python3")
    assert answer.last_line == ""


@pytest.mark.needs_root
def test_a_file_in_the_place_of_a_device_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("as it was")
    trial = files(tmp_path, *mounted(f"mount --bind {tmp_path}/file /dev/null"))
    assert refusals(trial) == {"open /dev/null": errno.ENODEV}
    assert trial.refused()[0].facts["device"] is False and (tmp_path / "file").read_text() == "as it was"


@pytest.mark.needs_root
def test_a_mode_keeps_the_user_out() -> None:
    made = "mount -t tmpfs t /mnt; mkdir -m 700 /mnt/closed; mkdir -m 777 /mnt/open"
    folders = [folder(Path(f"/mnt/{name}/cache"), name, makes=True) for name in ("closed", "open")]
    # Not ours, which others may not be able to reach.
    trial = files(Path("/mnt/open"), *mounted(made), *AS_NOBODY, folders=folders, python="/usr/bin/python3")
    assert {attempt.facts["name"]: attempt.number for attempt in trial.refused()} == {"closed": errno.EACCES}
    assert trial.died is None


@pytest.mark.parametrize("specs", [(), (refusing("openat", errno.EOPNOTSUPP, 2, O_TMPFILE_BIT),)])
def test_where_killed_nothing_is_left(tmp_path: Path, specs: tuple[str, ...]) -> None:
    """With and without files that have no name."""
    before = refused_calls(*specs) if specs else ()
    assert left_after_kills("files", tmp_path, seconds=0.004, times=10, before=before) == []


def test_what_an_earlier_trial_left_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    old, young, living, other = (
        tmp_path / name
        for name in (
            f".npudoctor-trial-{gone.pid}-1", f".npudoctor-trial-{gone.pid}-2",
            f".npudoctor-trial-{os.getpid()}-3", f".npudoctor-{gone.pid}",
        )
    )  # fmt: skip
    for path in (old, young, living, other):
        path.touch()
    for path in (old, living, other):
        os.utime(path, (0, 0))
    assert refusals(files(tmp_path)) == {}
    assert sorted(tmp_path.iterdir()) == sorted([young, living, other])


def test_a_folder_that_an_earlier_trial_left_is_removed_with_its_own_file_alone(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    own, another = (tmp_path / f".npudoctor-trial-{gone.pid}-{number}" for number in (1, 2))
    for path, name in ((own, own.name), (another, "inside")):
        path.mkdir()
        (path / name).touch()
        os.utime(path, (0, 0))
    assert refusals(files(tmp_path)) == {}
    assert [*tmp_path.rglob("*")] == [another, another / "inside"]


@pytest.mark.needs_root
def test_what_is_there_already_is_opened_and_left_as_it_is() -> None:
    made = "mount -t tmpfs t /mnt; chmod 777 /mnt; cd /mnt; echo one >closed; echo two >open; chmod 666 open"
    seen = '[ "$(cat /mnt/closed /mnt/open; ls /mnt)" = "$(printf \'one\\ntwo\\nclosed\\nopen\')" ]'
    changed = """echo '{"what": "changed", "number": 1}'"""
    watched = ("sh", "-c", f'"$@"; {seen} || {changed}', "sh")
    logs = [f"/mnt/{name}" for name in ("closed", "open", "missing")]
    before = (*mounted(made), *watched, *AS_NOBODY)
    trial = files(Path("/mnt"), *before, python="/usr/bin/python3", existing=logs)
    assert (refusals(trial), trial.died) == ({"open /mnt/closed": errno.EACCES}, None)


def test_only_a_file_is_opened_again(tmp_path: Path) -> None:
    """Somebody's pipe would make it wait, and a device may take it for an order."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    trial = files(tmp_path, existing=[str(tmp_path / name) for name in ("pipe", "device", "missing")])
    assert refusals(trial) == {f"open {tmp_path}/{name}": errno.EINVAL for name in ("pipe", "device")}
