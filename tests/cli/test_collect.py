"""Where the bundle of `explain --collect` goes: through nobody's link, and never for ever."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from .command import Npudoctor

LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
STRANGER = 12345
# Nobody reads the requests of this file system: whoever asks it waits until the descriptor is closed.
MUTE = """
exec 9<>/dev/fuse || exit 77
mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 mute "$0" || exit 77
"$@" 9>&- & pid=$!
( sleep 15; kill -9 $pid ) 9>&- >/dev/null 2>&1 & guard=$!
wait $pid; status=$?
kill $guard
exit $status
"""


@pytest.fixture
def log(npudoctor: Npudoctor) -> Path:
    """A log with a failure."""
    npudoctor.variables["NPUDOCTOR_KNOWLEDGE_DIR"] = ""
    path = npudoctor.folder / "job.log"
    path.write_text(LINE, encoding="utf-8")
    return path


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["home", "shared"])
def test_root_packs_through_no_folder_link_of_another_user(
    npudoctor: Npudoctor, log: Path, kind: str
) -> None:
    mine, theirs = npudoctor.folder / "mine", npudoctor.folder / "theirs"
    mine.mkdir(mode=0o700)
    theirs.mkdir()
    if kind == "home":
        os.chown(theirs, STRANGER, STRANGER)
    else:
        theirs.chmod(0o1777)
    (theirs / "out").symlink_to(mine)
    os.chown(theirs / "out", STRANGER, STRANGER, follow_symlinks=False)
    done = npudoctor("explain", str(log), "--collect", str(theirs / "out" / "b.tgz"))
    assert (done.status, done.out) == (64, "")
    assert done.err.count("\n") == 1 and "--collect: " in done.err and "another user" in done.err
    assert list(mine.iterdir()) == []


def test_a_link_of_ones_own_is_followed(npudoctor: Npudoctor, log: Path) -> None:
    (npudoctor.folder / "real").mkdir()
    (npudoctor.folder / "out").symlink_to("real")
    assert npudoctor("explain", str(log), "--collect", "out/b.tgz").status == 0
    assert [one.name for one in (npudoctor.folder / "real").iterdir()] == ["b.tgz"]
    with tarfile.open(npudoctor.folder / "real" / "b.tgz") as bundle:
        assert "b/explain.json" in bundle.getnames()


@pytest.mark.parametrize("target", ["nowhere", "job.log"])
def test_a_link_at_the_place_of_the_bundle_is_something_that_exists(
    npudoctor: Npudoctor, log: Path, target: str
) -> None:
    (npudoctor.folder / "b.tgz").symlink_to(target)
    done = npudoctor("explain", str(log), "--collect", "b.tgz")
    assert (done.status, done.out) == (64, "") and "already exists and is not overwritten" in done.err
    assert log.read_text(encoding="utf-8") == LINE and not (npudoctor.folder / "nowhere").exists()


@pytest.mark.needs_root
def test_a_file_system_that_never_answers_is_not_waited_for(npudoctor: Npudoctor, log: Path) -> None:
    point = npudoctor.folder / "mute"
    point.mkdir()
    words = npudoctor.argv("explain", str(log), "--collect", str(point / "b.tgz"), "--deadline", "3")
    began = time.monotonic()
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "bash", "-c", MUTE, str(point), *words],
        env=npudoctor.environment({}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(f"no FUSE here: {done.stderr}")
    assert done.returncode == 64 and done.stdout == "" and done.stderr.count("--collect: ") == 1, done
    assert time.monotonic() - began < 12


def _texts(path: Path) -> dict[str, str]:
    with tarfile.open(path) as bundle:
        read = {one.name: bundle.extractfile(one) for one in bundle}
        return {name.partition("/")[2]: file.read().decode() for name, file in read.items() if file}


def test_a_log_whose_lines_are_missing_is_named_with_the_reason(npudoctor: Npudoctor, log: Path) -> None:
    """Standard input is there once; nobody is to think that nothing was found in it."""
    script = f'cat {log} | "$@" explain - --collect b.tgz'
    done = npudoctor.shell(script)
    assert "npudoctor: not in the bundle: -: it cannot be read a second time\n" in done.err
    assert "  -: it cannot be read a second time\n" in _texts(npudoctor.folder / "b.tgz")["README.txt"]


def test_it_says_what_it_wrote(npudoctor: Npudoctor, log: Path, tmp_path: Path) -> None:
    place = tmp_path / "bundle.tar.gz"
    done = npudoctor("explain", str(log), "--collect", str(place))
    assert place.is_file() and f"npudoctor: saved the bundle to {place}\n" in done.err
