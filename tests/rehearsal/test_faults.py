"""Every fault is found, and gone after what mends it; rehearsed by root, and by an ordinary user."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Callable

import pytest

from npudoctor.checking.index import load_index
from npudoctor.rehearsal.fault import FIX, NOTHING, TYPED, Fault
from npudoctor.rehearsal.faults import FAULTS
from npudoctor.rehearsal.namespaces import Lacking, run_apart

USER = 12345
ROOT = Path(__file__).resolve().parents[2]
START = (
    "import sys; sys.path += {folders!r}; import npudoctor; npudoctor.__path__.append({root!r})\n"
    "from npudoctor.__main__ import main; sys.exit(main())"
)
OPENED = """
set -e
mount -t tmpfs tmpfs /mnt
for kept in {kept}; do mkdir -p "/mnt$kept" && mount --bind "$kept" "/mnt$kept"; done
mount -t tmpfs -o mode=755 tmpfs /root
mount -t tmpfs -o mode=1777 tmpfs /tmp
for kept in {kept}; do mkdir -p "$kept" && mount --bind "/mnt$kept" "$kept"; done
cd /
exec setpriv --reuid {user} --regid {user} --clear-groups env -i PATH=/usr/bin:/bin {start} "$@"
"""
ALLOWED: list[str] = []


@pytest.fixture(autouse=True)
def namespaces(lack: Callable[[str], None]) -> None:
    """Only where the kernel allows them; asked once."""
    if not ALLOWED:
        try:
            run_apart(lambda: 0)
            ALLOWED.append("")
        except Lacking as error:
            ALLOWED.append(str(error))
    if ALLOWED[0]:
        lack(ALLOWED[0])


# What begins every rehearsal is loaded once; each is a process forked from this one.
STAY = """
import json, os, sys
sys.path[:] = {path!r}
import npudoctor
npudoctor.__path__ += {checks!r}
import npudoctor.__main__, npudoctor.cli.main, npudoctor.cli.rehearse, npudoctor.rehearsal.play
from npudoctor.rehearsal.faults import FAULTS
for line in sys.stdin:
    folder, words = json.loads(line)
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT, 0o600), number)
            sys.argv = ["npudoctor", *words]
            status = npudoctor.__main__.main()
        except SystemExit as end:
            status = end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitpid(pid, 0)[1], flush=True)
"""
Perform = Callable[[str], "tuple[int, list[set[str]], str]"]


@pytest.fixture(scope="session")
def perform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Perform]:
    """A fault's rehearsal: what `told` says of it."""
    import npudoctor

    path = [path for path in sys.path if path.startswith("/")] + [os.path.dirname(npudoctor.__path__[0])]
    checks = [os.path.dirname(folder) for folder in import_module("npudoctor.checks").__path__]
    argv = [sys.executable, "-I", "-c", STAY.format(path=path, checks=checks)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stays:
        asks, answers = stays.stdin, stays.stdout
        assert asks is not None and answers is not None

        def perform(name: str) -> tuple[int, list[set[str]], str]:
            folder = tmp_path_factory.mktemp("rehearsal")
            words = ["rehearse", name, "--", "--format", "json"]
            asks.write(json.dumps([str(folder), words]) + "\n")
            asks.flush()
            status = os.waitstatus_to_exitcode(int(answers.readline()))
            return told(status, (folder / "out").read_text(), (folder / "err").read_text())

        yield perform


def told(status: int, out: str, err: str) -> tuple[int, list[set[str]], str]:
    """The status, the codes of both reports, and what was said on standard error, its lines unfolded."""
    return status, list(map(_codes, _reports(out))), err.replace("\n  ", " ")


def _reports(text: str) -> list[Any]:
    """The JSON documents in a text; the report of fix lies between them."""
    found, at, decoder = [], text.find("{"), json.JSONDecoder()
    while at >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            found.append(document)
        at = text.find("{", end)
    return [document for document in found if str(document.get("schema", "")).startswith("npudoctor.report/")]


def _codes(report: Any) -> set[str]:
    return {finding["code"] for row in report["results"] for finding in row["findings"]}


def test_the_list_is_long_and_true() -> None:
    codes = {code: check.group for check in load_index().values() for code in check.codes}
    assert len(FAULTS) >= 25
    assert {fault.code for fault in FAULTS.values()} <= set(codes)
    groups = {codes[fault.code] for fault in FAULTS.values()}
    assert groups == {check.group for check in load_index().values()}
    assert {fault.remedy for fault in FAULTS.values()} == {FIX, TYPED, NOTHING}
    assert len({fault.code for fault in FAULTS.values()}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_it_is_found_and_mended(fault: Fault, perform: Perform, need: Callable[..., None]) -> None:
    need(*fault.programs)
    if fault.name == "firewall" and os.geteuid() != 0:
        pytest.skip("only root sees firewall rules")
    status, (before, after), said = perform(fault.name)
    assert status == 0, said
    by_us = fault.remedy if os.geteuid() == 0 or not fault.by_root else NOTHING
    assert fault.code in before
    assert (fault.code in after) is (by_us == NOTHING), said
    kind = "real fault" if fault.real else "simulated files and tools"
    assert f"{kind} in private namespaces (" in said and "); this machine is not changed" in said


def as_user(name: str) -> tuple[int, list[set[str]], str]:
    """The same by an ordinary user, to whom a mount namespace opens what only root may enter."""
    hidden = {
        path for path in (str(ROOT), sys.prefix, sys.base_prefix) if path.startswith(("/root/", "/tmp/"))
    }
    folders = [path for path in sys.path if path.endswith("-packages")] + [str(ROOT / "src")]
    program = f"{sys.base_prefix}/bin/python{sysconfig.get_python_version()}"
    start = [program, "-I", "-c", START.format(folders=folders, root=str(ROOT))]
    script = OPENED.format(kept=shlex.join(sorted(hidden)), start=shlex.join(start), user=USER)
    command = ["unshare", "-m", "bash", "-c", script, "bash", "rehearse", name, "--", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return told(done.returncode, done.stdout, done.stderr)


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("name", "gone", "line"),
    [
        ("dead-extension-build", True, "npudoctor fix repaired it"),
        ("port-held", True, "the commands that it shows repaired it"),
        ("slow-clock", True, "the commands that it shows repaired it"),
        ("small-shm", False, "only root can repair it"),
        ("npu-alarm", False, "no command on this machine can repair it"),
    ],
)
def test_ordinary_users_may_rehearse(name: str, gone: bool, line: str, need: Callable[..., None]) -> None:
    need("setpriv", *FAULTS[name].programs)
    status, (before, after), said = as_user(name)
    code = FAULTS[name].code
    assert (status, code in before, code in after) == (0, True, not gone), said
    assert line in said


@pytest.mark.needs_root
def test_a_firewall_is_only_for_root(need: Callable[..., None]) -> None:
    need("setpriv", "nft", "ip")
    status, reports, said = as_user("firewall")
    assert (status, reports) == (2, [])
    assert said.splitlines()[-1].startswith("npudoctor: cannot rehearse firewall: only root")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from npudoctor.rehearsal import play

    monkeypatch.setattr(play, "SYSTEM", "/nonexistent")
    assert shutil.which("ip", path="/nonexistent") is None
    with pytest.raises(Lacking, match="not installed: ip"):
        play.rehearse(FAULTS["port-held"], (), play.Voice(print, print))
