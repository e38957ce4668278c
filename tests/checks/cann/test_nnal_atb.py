"""nnal-atb: ATB is found, of CANN's release and of torch's ABI, with the symbols that are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

from tests.checks.cann.test_library_path import ALL, HEALTHY, NAMED, torch_npu
from tests.elves import library

from npudoctor import Risk, Severity, Status
from npudoctor.checks.cann.nnal_atb import nnal_atb
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, link, unreadable

NNAL = "/usr/local/Ascend/nnal/atb"
SYMBOL = "_ZN3atb13CreateContextEPPNS_7ContextE"
NEW_STRING = "_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD_STRING = "_ZN3c105ErrorC1ESs"
TAG = "cpython-311-aarch64-linux-gnu.so"


def entries(abi: int) -> list[str]:
    """What ATB's script puts on LD_LIBRARY_PATH."""
    return [f"{NNAL}/latest/atb/cxx_abi_{abi}/{part}" for part in ("lib", "examples", "tests/atbopstest")]


def atb(version: str = "8.1.RC1", symbol: str = SYMBOL) -> dict[str, Content]:
    """An installed NNAL."""
    lines = (
        f"Ascend-cann-atb : {version}",
        f"Ascend-cann-atb Version : {version}.B150",
        "Platform : aarch64",
    )
    info = "".join(f"    {line}\n" for line in lines)
    files: dict[str, Content] = {
        f"{NNAL}/{version}/atb/cxx_abi_{abi}/lib/libatb.so": library(exports=[symbol], machine="aarch64")
        for abi in (0, 1)
    }
    files[f"{NNAL}/{version}/version.info"] = info
    files[f"{NNAL}/latest"] = link(version)
    files[f"{NNAL}/set_env.sh"] = "export ATB_HOME_PATH=\n"
    return files


def torch(string: str = NEW_STRING, hard: bool = False) -> dict[str, Content]:
    """torch_npu whose plug-in (or, with `hard`, whose own library) needs ATB, on a torch of this ABI."""
    lib = f"{SITE}/torch_npu/lib"
    files = torch_npu()
    files[f"{SITE}/torch/lib/libtorch.so"] = library("libc10.so", rpath="$ORIGIN", machine="aarch64")
    files[f"{SITE}/torch/lib/libc10.so"] = library(soname="libc10.so", exports=[string], machine="aarch64")
    name = "libtorch_npu.so" if hard else "libop_plugin_atb.so"
    files[f"{lib}/{name}"] = library(
        "libtorch.so", "libatb.so", imports=[SYMBOL, "aclInit"], rpath="$ORIGIN", machine="aarch64"
    )
    return files


def paddle() -> dict[str, Content]:
    """Paddle and its plug-in."""
    return {
        f"{SITE}/paddle/base/libpaddle.so": library(machine="aarch64"),
        f"{SITE}/paddle_custom_device/libpaddle-custom-npu.so": library("libatb.so", machine="aarch64"),
    }


def judge(
    files: Mapping[str, Content],
    path: list[str],
    packages: Optional[Mapping[str, str]] = None,
    root: Optional[str] = None,
) -> Asked:
    """What nnal-atb says with these entries before CANN's on LD_LIBRARY_PATH."""
    base = {name: content for name, content in HEALTHY.items() if "/torch" not in name}
    variables = {**NAMED, "LD_LIBRARY_PATH": ":".join([*path, *ALL])}
    host = fake_host(
        {**base, **files}, variables=variables, packages=packages, machine="aarch64", expect="npu", root=root
    )
    return ask(nnal_atb, host)


def scene(tmp: Path) -> Iterator[Asked]:
    """All that nnal-atb can say."""
    yield judge({}, [])
    yield judge({**torch(), **atb()}, [])
    yield judge(torch(hard=True), [])
    yield judge({**torch(OLD_STRING), **atb()}, entries(1), {"vllm-ascend": "0.9.1"})
    yield judge({**torch(), **atb()}, [*entries(1), *entries(0)])
    yield judge({**torch(hard=True), **atb("8.0.0", "other")}, entries(1))


VLLM = {"vllm-ascend": "0.9.1"}


def test_quiet_when_well() -> None:
    asked = judge({**torch(), **atb()}, entries(1), VLLM)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["library"] == f"{NNAL}/latest/atb/cxx_abi_1/lib/libatb.so"
    assert (asked.facts["abi"], asked.facts["torch_abi"], asked.facts["version"]) == (1, 1, "8.1.RC1")
    assert judge({**torch(OLD_STRING), **atb()}, entries(0)).codes == []
    assert judge({**paddle(), **atb()}, entries(1)).codes == []


def test_quiet_where_nobody_uses_it() -> None:
    assert judge(torch(), []).codes == []
    assert judge({}, []).status is Status.SKIPPED


def test_not_found() -> None:
    for files, packages, severity in (
        ({**torch(), **atb()}, None, Severity.INFO),
        ({**torch(), **atb()}, VLLM, Severity.WARNING),
        ({**torch(hard=True), **atb()}, None, Severity.ERROR),
        ({**paddle(), **atb()}, None, Severity.ERROR),
    ):
        (finding,) = judge(files, [], packages).findings
        assert (finding.code, finding.severity) == ("nnal-atb.not-found", severity)
        assert "cann-env.not-sourced" in finding.echo_of
        # An error folded under cann-env's warning would not decide.
        assert ("cann-env.atb-not-sourced" in finding.echo_of) is (severity is not Severity.ERROR)
        assert finding.fix is not None
        assert finding.fix.commands[0].startswith(f"source {NNAL}/set_env.sh")
        assert finding.fix.risk is Risk.MANUAL


def test_not_installed() -> None:
    (finding,) = judge(torch(hard=True), []).findings
    assert (finding.code, finding.echo_of) == ("nnal-atb.not-found", ())
    assert finding.fix is not None and not finding.fix.commands
    assert "NNAL is not installed" in finding.message


def test_the_other_abi() -> None:
    (finding,) = judge({**torch(OLD_STRING), **atb()}, entries(1), VLLM).findings
    assert (finding.code, finding.severity) == ("nnal-atb.other-abi", Severity.WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == (f"source {NNAL}/set_env.sh --cxx_abi=0",)


def test_both_abis() -> None:
    (finding,) = judge({**torch(), **atb()}, [*entries(1), *entries(0)], VLLM).findings
    assert (finding.code, finding.severity) == ("nnal-atb.both-abis", Severity.INFO)
    codes = judge({**torch(OLD_STRING), **atb()}, [*entries(1), *entries(0)], VLLM).codes
    assert codes == ["nnal-atb.other-abi"]


def test_another_release() -> None:
    (finding,) = judge({**torch(), **atb("8.0.0")}, entries(1), VLLM).findings
    assert (finding.code, finding.severity) == ("nnal-atb.other-version", Severity.WARNING)
    assert "8.0.0" in finding.message
    assert "8.1.RC1" in finding.message


def test_undefined_symbols() -> None:
    (finding,) = judge({**torch(hard=True), **atb(symbol="other")}, entries(1)).findings
    assert (finding.code, finding.severity) == ("nnal-atb.undefined-symbols", Severity.ERROR)
    assert SYMBOL in finding.evidence
    assert "aclInit" not in finding.message


def test_cannot_tell() -> None:
    plugin = f"{SITE}/torch_npu/lib/libop_plugin_atb.so"
    assert judge({**torch(), plugin: unreadable(5)}, []).status is Status.UNKNOWN
    assert judge({**torch(), **atb()}, entries(1), root="/image").status is Status.SKIPPED
