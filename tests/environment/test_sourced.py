"""What a script sets is learnt by running it in a clean shell, where nobody else could have written it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable, Optional

import pytest

from npudoctor.environment.diff import EnvironmentDiff
from npudoctor.environment.sourced import _clean_variables, diff_of_script, is_trusted
from npudoctor.host import Host, Options
from npudoctor.testing import fake_host
from npudoctor.testing import folder as node

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of ours, on a way that nobody else may write to."""
    place = tmp_path / "cann with a blank"
    place.mkdir(mode=0o755)
    return place


def _host(seconds: float = 10.0) -> Host:
    return Host(Options(timeout=seconds), variables={"LD_LIBRARY_PATH": "/of/the/caller", "SECRET": "x"})


def _run(path: Path, *words: str, seconds: float = 10.0) -> Optional[EnvironmentDiff]:
    host = _host(seconds)
    try:
        return diff_of_script(host, str(path), *words)
    finally:
        host.close()


def _written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_what_is_set_and_what_is_put_before_and_behind(folder: Path) -> None:
    script = _written(
        folder / "set_env.sh",
        "export ASCEND_HOME_PATH=/a LD_LIBRARY_PATH=/one:/two:$LD_LIBRARY_PATH:/last: not_exported=1\n"
        "export PATH=/a/bin:$PATH CMAKE_PREFIX_PATH=$CMAKE_PREFIX_PATH:/cmake SECRET_SEEN=$SECRET\n"
        "plain=1; f() { :; }; export -f f; echo noise; cd /; false\n",
    )
    assert _run(script) == EnvironmentDiff(
        {"ASCEND_HOME_PATH": "/a", "not_exported": "1", "SECRET_SEEN": ""},
        {"LD_LIBRARY_PATH": ["/one", "/two"], "PATH": ["/a/bin"], "CMAKE_PREFIX_PATH": []},
        {"LD_LIBRARY_PATH": ["/last"], "PATH": [], "CMAKE_PREFIX_PATH": ["/cmake"]},
    )


def test_a_list_that_is_replaced_is_added_to_all_the_same(folder: Path) -> None:
    """Also by folders alone: no working directory gets into it that way."""
    script = _written(
        folder / "set_env.sh",
        "export LD_LIBRARY_PATH=/a:.::rel:/b PYTHONPATH=\nexport SHELLOPTS UID; set -a; plain=1\n",
    )
    found = _run(script)
    assert found is not None and found.values == {"plain": "1"}
    assert found.front == {"LD_LIBRARY_PATH": ["/a", "/b"], "PYTHONPATH": []}


def test_what_it_starts_by_name_lies_where_nobody_else_may_write() -> None:
    """As /usr/local, which on many systems is the group staff's."""
    files = {folder: node(0o755) for folder in ("/usr/local/sbin", "/usr/sbin", "/usr/bin")}
    host = fake_host({**files, "/usr/local/bin": node(0o775), "/bin": node(uid=4711)}, euid=0)
    assert _clean_variables(host)["PATH"] == "/usr/local/sbin:/usr/sbin:/usr/bin"


def test_it_sees_that_it_is_sourced_and_from_where(folder: Path) -> None:
    script = _written(
        folder / "set_env.sh",
        '[ "$0" = bash ] && here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n'
        "export ATB_HOME_PATH=$here/$1 COUNT=$#\nreturn 3\n",
    )
    found = _run(script, "--cxx_abi=1")
    assert found is not None and found.values == {"ATB_HOME_PATH": f"{folder}/--cxx_abi=1", "COUNT": "1"}


def test_what_it_sources_is_judged_and_run(folder: Path) -> None:
    _written(folder / "part/deep.bash", "export DEEP=${BASH_SOURCE[0]##*/}\n")
    _written(folder / "part/setenv.bash", 'export PART=$1; source "${BASH_SOURCE[0]%/*}/deep.bash"\n')
    script = _written(
        folder / "set_env.sh", 'cd "${BASH_SOURCE[0]%/*}"; . part/setenv.bash word; export LAST=1\n'
    )
    found = _run(script)
    assert found is not None and found.values == {"PART": "word", "DEEP": "deep.bash", "LAST": "1"}


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_what_others_may_write_is_not_run(folder: Path, mode: int) -> None:
    assert _run(_written(folder / "set_env.sh", "export A=1\n", mode)) is None


def test_what_lies_where_others_may_write_is_not_run(folder: Path) -> None:
    script = _written(folder / "open/set_env.sh", "export A=1\n")
    script.parent.chmod(0o777)
    assert _run(script) is None


def test_what_it_sources_is_not_run_where_others_may_write_it(folder: Path) -> None:
    trace = folder / "trace"
    _written(folder / "part/setenv.bash", f"touch '{trace}'\n", 0o666)
    script = _written(folder / "set_env.sh", f". '{folder}/part/setenv.bash'\nexport A=1\n")
    assert _run(script) is None
    assert not trace.exists()


def test_a_subshell_that_sources_something_else_ends_alone(folder: Path) -> None:
    trace = folder / "trace"
    _written(folder / "other.sh", f"touch '{trace}'\n", 0o666)
    script = _written(folder / "set_env.sh", f"x=$(. '{folder}/other.sh'); export A=1\n")
    _run(script)
    assert not trace.exists()


@pytest.mark.needs_root
def test_what_belongs_to_somebody_else_is_not_run(folder: Path) -> None:
    script = _written(folder / "set_env.sh", "export A=1\n")
    os.chown(script, NOBODY, NOBODY)
    assert _run(script) is None


@pytest.mark.needs_root
def test_neither_through_a_link_in_the_folder_of_somebody_else(folder: Path) -> None:
    script = _written(folder / "set_env.sh", "export A=1\n")
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "set_env.sh").symlink_to(script)
    assert _run(theirs / "set_env.sh") is not None
    os.chown(theirs, NOBODY, NOBODY)
    assert _run(theirs / "set_env.sh") is None


def test_a_sticky_file_is_no_sticky_folder(folder: Path) -> None:
    host = _host()
    assert is_trusted(host, "/tmp") or os.stat("/tmp").st_uid not in (0, os.geteuid())
    script = _written(folder / "set_env.sh", "", 0o1666)
    assert not is_trusted(host, str(script))
    host.close()


@pytest.mark.parametrize(
    "text",
    ["exit 0\n", "sleep 100\n", "kill -9 $$\n", "while :; do echo flood; done\n", 'exec "$0" -c true\n'],
    ids=["exits", "sleeps", "kills", "floods", "becomes another"],
)
def test_a_script_that_does_not_come_back_costs_little(folder: Path, text: str) -> None:
    started = time.monotonic()
    assert _run(_written(folder / "set_env.sh", text), seconds=0.4) is None
    assert time.monotonic() - started < 5


def test_a_link_that_goes_round_in_circles(folder: Path) -> None:
    """It sources itself under ever new names."""
    script = _written(folder / "set_env.sh", '. "${BASH_SOURCE[0]%/*}/./set_env.sh"\n')
    assert _run(script, seconds=0.6) is None


@pytest.mark.parametrize("name", ["set env's $(touch x).sh", 'q"`.sh', "ende\n.sh", "*.sh"])
def test_hostile_names(folder: Path, name: str) -> None:
    found = _run(_written(folder / name, "export A='x\ny'\n"))
    assert found is None if "\n" in name else found is not None and found.values == {"A": "x\ny"}


def test_bytes_that_are_no_utf_8(folder: Path) -> None:
    script = folder / "set_env.sh"
    script.write_bytes(b"export A=$'\\xff/x'\n")
    found = _run(script)
    assert found is not None and found.values == {"A": "\udcff/x"}


def test_what_starts_with_the_shell_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, need: Callable[..., None]
) -> None:
    need("bash")
    trap = _written(tmp_path / "trap.sh", f"touch '{tmp_path}/sprung'\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(trap))
    assert _run(_written(folder / "set_env.sh", "export A=1\n")) is not None
    assert not (tmp_path / "sprung").exists()
