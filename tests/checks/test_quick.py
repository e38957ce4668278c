"""Profile quick is full without the trial, the checks that start a tool of a vendor, and nothing else."""

from __future__ import annotations

import pytest
from tests.checks.device.npu_machine import screen

from npudoctor.checking.check import Check
from npudoctor.host import Options
from npudoctor.host.process.commands import CommandResult
from npudoctor.registry.registry import load_all
from npudoctor.testing import Content, ask, device, fake_host, link, process_files
from npudoctor.testing.fakes import FakeCommands

CHECKS = [check for check in load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks if check.group != "deep"]
TOOLS = ("npu-smi", "hccn_tool", "nvidia-smi")
HOLDER = 4711
MACHINE: dict[str, Content] = {
    **{f"/dev/davinci{number}": device() for number in range(8)},
    **{f"/dev/{name}": device() for name in ("davinci_manager", "devmm_svm", "hisi_hdc")},
    **{f"/dev/nvidia{number}": device() for number in range(2)},
    "/dev/nvidiactl": device(),
    "/usr/bin/hccn_tool": "",
    **process_files(HOLDER, descriptors={3: "/dev/davinci0", 4: "/dev/nvidia0"}),
    f"/proc/{HOLDER}/fd/3": link("/dev/davinci0"),
}
# A GPU by its name, which only the driver knows.
VARIABLES = {"CUDA_VISIBLE_DEVICES": "GPU-0a2b"}


def vendor_tools_of(check: Check, expect: str, **options: bool) -> set[str]:
    """The tools of vendors that the check starts by itself on a machine that has all of them."""
    commands = {"npu-smi": screen("c_910b2_24.1.0_idle"), **dict.fromkeys(("hccn_tool", "nvidia-smi"), "")}
    host = fake_host(
        MACHINE,
        commands={
            name: text if text else CommandResult((name,), "timeout") for name, text in commands.items()
        },
        variables=VARIABLES,
        packages={"torch": "2.7.1"},
        expect=expect,
        options=Options(**options),  # type: ignore[arg-type]
    )
    ask(check, host)
    assert isinstance(host.commands, FakeCommands)
    asked = {words[0].rpartition("/")[2] for words in host.commands.asked}
    scripts = {"nvidia-ml-py" for words in host.commands.asked if "pynvml" in words[-1]}
    return {*TOOLS, *scripts} & {*asked, *scripts}


@pytest.mark.parametrize("check", [pytest.param(check, id=check.id) for check in CHECKS])
def test_quick_leaves_out_exactly_the_trial_and_what_starts_a_tool_of_a_vendor(check: Check) -> None:
    quick = check.quick or check.always
    if check.group == "trial":
        assert not quick
        return
    full = {tool for expect in ("npu", "gpu") for tool in vendor_tools_of(check, expect)}
    if quick:
        assert not vendor_tools_of(check, "npu", vendor_tools=False), check.id
        assert not vendor_tools_of(check, "gpu", vendor_tools=False), check.id
    else:
        assert full, f"{check.id} starts no tool of a vendor, and the profile quick leaves it out"


def test_the_tools_of_the_vendors_are_all_seen() -> None:
    """Each of them is started by some check of the profile full, so that the test above means something."""
    started = {
        tool for check in CHECKS for expect in ("npu", "gpu") for tool in vendor_tools_of(check, expect)
    }
    assert started == {*TOOLS, "nvidia-ml-py"}
