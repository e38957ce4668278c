"""A need never hides what its check would have said; the index knows what the files declare."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Status
from npudoctor.checking import index, needs
from npudoctor.checking.check import Check, CheckFailure, check, declaration_error
from npudoctor.checking.needs import needs_interpreter, why_not_applicable
from npudoctor.core.model import THINGS, Scope, Severity
from npudoctor.host import Host
from npudoctor.registry.registry import load_all
from npudoctor.testing import SITE, ask, fake_host, folder, link, unreadable

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks
NEEDING = [check for check in BUILT_IN if check.needs]
CANN = "/usr/local/Ascend/ascend-toolkit/latest"

BARE = {
    "nothing": lambda: fake_host(),
    "an image": lambda: fake_host(root="/image"),
    "a user": lambda: fake_host(euid=1000, user="ada", variables={"HOME": "/home/ada"}),
    "other packages": lambda: fake_host(packages={"requests": "2.0", "numpy": "2.1.0"}),
    "a GPU": lambda: fake_host({"/sys/bus/pci/devices": folder()}, expect="gpu"),
    "a working directory": lambda: fake_host({"/proc/self/cwd": link("/job"), "/job/x.py": ""}),
    "an empty Ascend folder": lambda: fake_host({"/usr/local/Ascend": folder()}),
    "CANN": lambda: fake_host({f"{CANN}/compiler/version.info": "Version=7.7.0.1.238\n"}),
}


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("check", NEEDING, ids=lambda check: check.id)
def test_what_is_skipped_for_a_need_would_skip_itself(check: Check, name: str) -> None:
    host: Host = BARE[name]()
    if why_not_applicable(check.needs, host) is None:
        return
    told = ask(replace(check, needs=()), BARE[name]())
    assert (told.status, told.findings) == (Status.SKIPPED, ()), told


def test_one_of_several_is_enough() -> None:
    needs = ("cann", "$ASCEND_*", "$OTHER", "torch-npu")
    assert why_not_applicable(needs, fake_host({f"{CANN}/compiler/version.info": "Version=7.7\n"})) is None
    assert why_not_applicable(needs, fake_host(variables={"ASCEND_X": ""})) is None
    assert why_not_applicable(needs, fake_host(variables={"OTHER": ""})) is None
    assert why_not_applicable(needs, fake_host(packages={"torch_npu": "2.1.0"})) is None
    assert why_not_applicable(needs, fake_host(expect="npu")) is None
    reason = why_not_applicable(needs, fake_host(variables={"MY_ASCEND_X": "1"}))
    assert reason == (
        "CANN is not installed on this machine; not installed in /usr/bin/python3: torch-npu; "
        "none of the variables of this check is set"
    )


def test_who_cannot_tell_lets_the_check_look() -> None:
    assert why_not_applicable(("torch",), fake_host({SITE: unreadable(errno.EACCES)})) is None
    assert why_not_applicable(("$NAME",), fake_host(root="/image")) is None
    assert why_not_applicable(("npu",), fake_host(root="/image")) is None


@pytest.mark.parametrize(
    "name", ["torch", "~orch", "x.pth", "torch.egg-link", "torch-2.5.0.dist-info", "pip_audit-2.0.dist-info"]
)
def test_whatever_was_installed_is_a_package(name: str) -> None:
    assert why_not_applicable(("packages",), fake_host({f"{SITE}/{name}": ""})) is None


def test_an_empty_environment_has_no_packages() -> None:
    files = {
        f"{SITE}/{name}": "" for name in ("pip/__init__.py", "pip-26.3.dist-info/METADATA", "README.txt")
    }
    assert (
        why_not_applicable(("packages",), fake_host(files)) == "no framework is installed in /usr/bin/python3"
    )


def wrong(needs: Any) -> Optional[str]:
    return declaration_error("a", {"a.bad": Severity.ERROR}, (), needs)


@pytest.mark.parametrize(
    "needs",
    [
        *("cann", "", ("canm",), ("can",), ("cannn",), ("drivers",), ("dirver",), ("gpus",), ("frame-work",)),
        *(("HOME",), (5,), ("",), ("$",), ("$*",), ("$1X",), ("$A B",), ("$A**",), ("Torch",), ("torch>=2",)),
        *(("-x",), ("x-",), ("x\n",), (None,), None, 5, {"cann": 1}, ("cann", "CANN")),
    ],
)
def test_a_need_that_nothing_meets_is_refused(needs: Any) -> None:
    assert wrong(needs)
    with pytest.raises(ValueError, match="need"):
        check("a", scope=Scope.NODE, codes={"a.bad": Severity.ERROR}, needs=needs)


def test_the_message_says_what_is_meant() -> None:
    assert wrong(("canm",)) == "the need 'canm' is no distribution: 'cann' is meant"


@pytest.mark.parametrize(
    "need", [*THINGS, "$HOME", "$MS_*", "$_x1", "torch", "torch-npu", "a.b_c", "npm", "7z"]
)
def test_a_need_that_makes_sense(need: str) -> None:
    assert wrong((need,)) is None


def test_every_thing_is_looked_for() -> None:
    assert set(needs.THINGS) == set(THINGS)


@pytest.mark.parametrize("one", BUILT_IN, ids=lambda one: one.id)
def test_the_built_in_needs_make_sense(one: Check) -> None:
    assert wrong(one.needs) is None


def test_what_asks_the_interpreter_is_slow() -> None:
    assert (
        needs_interpreter(("cann", "torch"))
        and needs_interpreter(("framework",))
        and not needs_interpreter(("cann", "$NAME", "npu", "driver"))
    )


@pytest.mark.parametrize("check", BUILT_IN, ids=lambda check: check.id)
def test_the_index_says_what_the_file_declares(check: Check) -> None:
    declared = index.load_check(check.group, check.id)
    assert index.index_row(declared) == index.index_row(check)
    assert declared.manual == check.manual and check.manual


def test_the_index_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "index.py", "--check"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_that_declares_something_else_is_not_asked() -> None:
    row = {**index.index_row(index.load_check("python", "torch-npu")), "codes": {"torch-npu.bad": "error"}}
    with pytest.raises(CheckFailure, match="out of date"):
        next(index._indexed_check(row).ask(fake_host()))


def test_a_file_that_cannot_be_loaded_is_not_asked() -> None:
    row = {**index.index_row(index.load_check("python", "torch-npu")), "id": "torch-nothing"}
    with pytest.raises(CheckFailure, match="ModuleNotFoundError"):
        next(index._indexed_check(row).ask(fake_host()))


def test_what_does_not_apply_is_not_even_loaded() -> None:
    script = (
        "import sys\nfrom npudoctor.registry import registry\nfrom npudoctor.runner import runner\n"
        "from npudoctor.testing import fake_host\n"
        "loaded = registry.load_all({'NPUDOCTOR_CHECKS_DIR': ''})\n"
        "runner.run(loaded, fake_host(), runner.Settings(select=('identity', 'torch-npu', 'cann-env')))\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('npudoctor.checks.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "identity" in done.stdout.split()
    assert not {"torch_npu", "cann_env"} & set(done.stdout.split())
