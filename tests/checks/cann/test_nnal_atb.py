"""nnal-atb: ATB is found, of CANN's release and of torch's ABI, with the symbols that are needed."""

from __future__ import annotations

from npudoctor import Risk, Severity, Status
from npudoctor.testing import SITE, unreadable

from ...scenes.nnal_atb import NNAL, OLD_STRING, SYMBOL, atb, entries, judge, paddle, torch  # noqa: TID252

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
    assert (finding.code, finding.fix, finding.echo_of) == ("nnal-atb.not-found", None, ())
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
