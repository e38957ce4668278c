"""torch-npu.cann-missing: `import torch` loads torch_npu, which does not find CANN."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from tests.checks.cann.test_library_path import ALL, HEALTHY, NAMED, SOURCED, cann

from npudoctor import Severity
from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files

SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
WITHOUT_CANN = {path: content for path, content in HEALTHY.items() if path not in cann()}


def judge(
    files: dict[str, Content],
    entries: Optional[list[str]] = None,
    *,
    torch: str = "2.7.1",
    group: str = "torch.backends",
    wanted: str = "none",
    switch: Optional[str] = None,
    **more: Any,
) -> Asked:
    """The answer where torch_npu names itself in this group of entry points."""
    files = {**files, **package_files("torch", torch), **package_files("torch_npu", torch)}
    files[f"{SITE}/torch_npu-{torch}.dist-info/entry_points.txt"] = (
        f"[{group}]\ntorch_npu = torch_npu:_autoload\n"
    )
    variables = {**NAMED, "LD_LIBRARY_PATH": ":".join(entries)} if entries is not None else {}
    variables.update({SWITCH: switch} if switch is not None else {})
    return ask(torch_npu, fake_host(files, variables=variables, expect=wanted, machine="aarch64", **more))


def codes(asked: Asked) -> list[str]:
    return [code for code in asked.codes if code == "torch-npu.cann-missing"]


@pytest.mark.parametrize("wanted", ["none", "npu"])
def test_without_cann_import_torch_fails(wanted: str) -> None:
    asked = judge(WITHOUT_CANN, wanted=wanted)
    (finding,) = [one for one in asked.findings if one.code == "torch-npu.cann-missing"]
    assert finding.severity is Severity.ERROR
    assert "torch 2.7.1 autoloads torch_npu 2.7.1, which needs libhccl.so" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"export {SWITCH}=0",)
    assert ("library-path.not-found" in finding.echo_of) is (wanted == "npu")


def test_a_login_node_is_let_alone() -> None:
    assert codes(judge(WITHOUT_CANN, wanted="auto")) == []


def test_an_image_is_not_judged_by_variables_that_it_does_not_have() -> None:
    assert codes(judge({f"/image{path}": text for path, text in WITHOUT_CANN.items()}, root="/image")) == []


def test_cann_that_is_not_sourced_is_not_found_either() -> None:
    assert codes(judge(HEALTHY)) == ["torch-npu.cann-missing"]
    assert codes(judge(HEALTHY, SOURCED)) == ["torch-npu.cann-missing"]  # of the driver
    assert codes(judge(HEALTHY, ALL)) == []


@pytest.mark.parametrize(
    "more",
    [{"switch": "0"}, {"switch": "no"}, {"switch": ""}, {"torch": "2.4.0"}, {"group": "console_scripts"}],
)
def test_where_torch_does_not_load_it(more: dict[str, Any]) -> None:
    assert codes(judge(WITHOUT_CANN, **more)) == []


def test_the_switch_of_one_does_load_it() -> None:
    assert codes(judge(WITHOUT_CANN, switch="1")) == ["torch-npu.cann-missing"]
