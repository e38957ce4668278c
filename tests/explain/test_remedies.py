"""What is advised names nothing that is not there: on a machine that was looked at, and in general."""

from __future__ import annotations

import re

import pytest
from tests.scenarios.machines import HOME, Machine, healthy, host_of

from npudoctor.cli.diagnosis import find_installed
from npudoctor.core.messages import activate
from npudoctor.explain.signatures.remedies import InstalledCann, adapt_remedy
from npudoctor.explain.signatures.signatures import Signature, built_in
from npudoctor.testing import unreadable

NAMED = re.compile(r"source (/\S+?)(?=[;\s]|\Z)")
ENV = "npudoctor env"


def sourcing() -> list[Signature]:
    """The signatures that advise to source a script, or what only CANN gives sense to."""
    found = [one for one in built_in() if any(NAMED.search(line) or ENV in line for line in one.remedy["en"])]
    assert found
    return found


def without_cann() -> Machine:
    machine = healthy("8.5.0", "x86_64", "torch").copy()
    machine.remove("/usr/local/Ascend/cann-8.5.0", "/usr/local/Ascend/cann", "/etc/Ascend")
    machine.variables = {"HOME": HOME, "PATH": machine.variables["PATH"]}
    return machine


@pytest.mark.parametrize("language", ["en", "zh"])
def test_in_general_a_line_names_its_condition(language: str) -> None:
    for signature in sourcing():
        activate(language)
        try:
            lines = adapt_remedy(signature.remedy, None)
        finally:
            activate("en")
        for line in lines:
            if NAMED.search(line) or ENV in line:
                begins = ("if CANN is installed: ", "if NNAL is installed: ", "若已安装 ")
                assert line.startswith(begins), (signature.id, line)
        if any(ENV in line or "/set_env.sh" in line for line in signature.remedy[language]):
            assert len(lines) >= len(signature.remedy[language]), signature.id


def test_without_cann_nothing_is_sourced() -> None:
    here = find_installed(host_of(without_cann()))
    assert here == InstalledCann(None, None, None)
    for signature in sourcing():
        lines = adapt_remedy(signature.remedy, here)
        assert not [line for line in lines if NAMED.search(line) or ENV in line], signature.id
        assert [line for line in lines if "is not installed on this machine: install" in line], signature.id


@pytest.mark.parametrize(
    ("version", "framework"),
    [("5.0.2", "torch"), ("8.1.RC1", "torch"), ("8.5.0", "vllm"), ("9.0.0", "torch")],
)
def test_what_is_named_on_a_machine_is_there(version: str, framework: str) -> None:
    machine = healthy(version, "x86_64", framework)
    host = host_of(machine)
    here = find_installed(host)
    assert here is not None and here.cann is not None
    named = []
    for signature in sourcing():
        for line in adapt_remedy(signature.remedy, here):
            named += NAMED.findall(line)
            assert "/set_env.sh)" not in line
            if here.nnal_script is None:
                assert "nnal/atb/set_env.sh" not in line
    assert [path for path in dict.fromkeys(named) if host.files.stat(path) is None] == []
    assert bool(named) is (here.cann_script is not None or here.nnal_script is not None)


def test_a_machine_that_cannot_be_looked_at_is_not_judged() -> None:
    machine = without_cann()
    machine.files["/usr/local/Ascend/cann-8.5.0"] = unreadable()
    machine.variables["ASCEND_HOME_PATH"] = "/usr/local/Ascend/cann-8.5.0"
    assert find_installed(host_of(machine)) is None
