"""The playbook of integrations/ansible, played by a real ansible-core on a really sick node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.node import ROOT, SCENES
from tests.real.isolation import outermost

pytestmark = [pytest.mark.real_ansible, pytest.mark.needs_root]
UNSHARE = (
    "unshare",
    "-m",
    "-i",
    "-p",
    "-n",
    "-f",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
PATIENCE = 180
LONGEST = 4000  # characters that a play may print

Plays = list[dict[str, Any]]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Plays]]:
    """All scenes, each in namespaces of its own, played at the same time."""
    ansible = _installed(tmp_path_factory.mktemp("ansible"))
    os.environ["NPUDOCTOR_WHEELS"] = str(_wheels(tmp_path_factory.mktemp("wheels")))
    running = {name: _start(name, ansible, tmp_path_factory.mktemp(name)) for name in SCENES}
    try:
        yield {name: _ended(name, play) for name, play in running.items()}
    finally:
        for play in running.values():
            play.kill()
            play.wait(30)


def _installed(folder: Path) -> Path:
    """A real ansible-core, the newest that this Python can have, in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "ansible-core>=2.15"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"ansible-core cannot be had: {done.stderr[-300:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return folder / "bin" / "ansible-playbook"


def _wheels(folder: Path) -> Path:
    """A wheelhouse: npudoctor's own wheel in dist, what it needs in deps."""
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir"]
    subprocess.run([*pip, str(folder / "dist"), "--no-deps", str(ROOT)], check=True)
    subprocess.run([*pip, str(folder / "deps"), str(ROOT)], check=True)
    return folder


def _start(name: str, ansible: Path, fresh: Path) -> subprocess.Popen[str]:
    keep = outermost(
        [
            ROOT,
            Path(sys.prefix),
            Path(sys.base_prefix),
            ansible.parents[1],
            Path(os.environ["NPUDOCTOR_WHEELS"]),
        ]
    )
    kept = [str(path) for path in keep if Path("/tmp") in path.parents]
    words = [sys.executable, "-m", "tests.integrations.node", name, str(ansible), str(fresh), *kept]
    pipe = subprocess.PIPE
    return subprocess.Popen([*UNSHARE, "--", *words], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def _ended(name: str, play: subprocess.Popen[str]) -> Plays:
    said, errors = play.communicate(timeout=PATIENCE)
    assert play.returncode == 0, (name, errors[-3000:])
    found: Plays = json.loads(said.splitlines()[-1])
    return found


def test_check_mode_tells_and_changes_nothing(plays: dict[str, Plays]) -> None:
    play, _mended, _again = plays["mended"]
    assert (play["recap"]["changed"], play["recap"]["failed"], play["status"]) == ("1", "0", 0), play["said"]
    assert len(play["segments"]) == 1
    assert play["sockets"] == ["/tmp/mindspore/cache_server_p50052"]


def test_a_sick_node_is_mended_and_changed(plays: dict[str, Plays]) -> None:
    _check, play, _again = plays["mended"]
    assert (play["recap"]["changed"], play["recap"]["failed"], play["status"]) == ("1", "0", 0), play["said"]
    assert (play["segments"], play["sockets"]) == ([], [])


def test_a_second_run_changes_nothing(plays: dict[str, Plays]) -> None:
    *_before, play = plays["mended"]
    assert (play["recap"]["changed"], play["recap"]["failed"], play["status"]) == ("0", "0", 0), play["said"]


def test_what_cannot_be_mended_fails_the_node_and_is_told(plays: dict[str, Plays]) -> None:
    fix, check = plays["held"]
    assert (fix["recap"]["changed"], fix["recap"]["failed"]) == ("0", "1"), fix["said"]
    assert "npudoctor fix: " in fix["said"]
    assert "clients hold its 1 GiB" in fix["said"]
    assert (check["recap"]["changed"], check["recap"]["failed"]) == ("0", "1"), check["said"]
    assert "npudoctor: not ready: " in check["said"]
    assert len(check["segments"]) == 1


def test_what_cannot_be_judged_is_a_warning(plays: dict[str, Plays]) -> None:
    check, fix = plays["unseen"]
    assert (check["recap"]["failed"], check["status"]) == ("0", 0), check["said"]
    assert "WARNING: npudoctor: " in check["said"]
    assert "links are not followed" in check["said"]
    assert (fix["recap"]["changed"], fix["recap"]["failed"]) == ("0", "1"), fix["said"]


def test_a_missing_program_and_a_bad_name_fail_in_words(plays: dict[str, Plays]) -> None:
    check, fix = plays["missing"]
    assert check["recap"]["failed"] == "1"
    assert "No such file" in check["said"]
    assert fix["recap"]["failed"] == "1"
    assert "no-such-check" in fix["said"]


def test_it_installs_and_merges_all_nodes(plays: dict[str, Plays]) -> None:
    (play,) = plays["collected"]
    states, status, has_page = play["merged"]
    assert states == {"ready": "localhost", "not_ready": "", "undetermined": "", "silent": "node[2-3]"}, play
    assert (status, has_page) == (2, True)
    assert "npudoctor, by ansible-core 2." in play["said"]


@pytest.mark.parametrize("name", SCENES)
def test_no_flood(plays: dict[str, Plays], name: str) -> None:
    for play in plays[name]:
        assert len(play["said"]) < LONGEST, play["said"]
        assert '"schema"' not in play["said"]
