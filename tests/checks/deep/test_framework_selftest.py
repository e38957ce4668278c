"""framework-selftest with real children: what computes, what fails, what there is no test for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.checks.deep.probe_machine import asked as ask_probe
from tests.checks.deep.probe_machine import died, dies_too_late, each, ends, machine, package

from npudoctor import Severity, Status
from npudoctor.checks.deep.framework_selftest import framework_selftest
from npudoctor.checks.deep.framework_selftest import framework_selftest as check
from npudoctor.testing import Asked, ask

MINDSPORE = """
float32 = None
def run_check(): pass
class Tensor:
    def __init__(self, values, kind): pass
    def __add__(self, one): return self
    def asnumpy(self): return self
    def sum(self): return 8.0
"""


def test_quiet_when_it_computes(site: Path) -> None:
    package(site, "mindspore", MINDSPORE)
    package(site, "numpy", "def ones(shape): return 1")
    host = machine(site)
    asked = ask(framework_selftest, host)
    host.close()
    assert (asked.status, asked.codes) == (Status.OK, []), asked.findings
    assert list(asked.facts["seconds"]) == ["mindspore on cpu"]  # type: ignore[call-overload]


def test_a_wrong_result_is_an_error(site: Path) -> None:
    package(site, "mindspore", "def run_check():\n    raise AssertionError('a product is wrong')")
    package(site, "numpy", "")
    host = machine(site)
    (finding,) = ask(framework_selftest, host).findings
    host.close()
    assert (finding.code, finding.severity) == ("framework-selftest.failed", Severity.ERROR)
    assert finding.evidence[0] == "AssertionError: a product is wrong"
    assert finding.message.startswith("mindspore fails on the CPU: AssertionError: a product is wrong (in ")


def test_skipped_where_no_framework_has_a_test(site: Path) -> None:
    package(site, "tensorflow", "")
    host = machine(site)
    assert ask(framework_selftest, host).status is Status.SKIPPED
    host.close()


def test_a_self_test_says_nothing_more_where_the_import_fails(site: Path) -> None:
    package(site, "torch", "raise ImportError('no')")
    package(site, "mindspore", "def run_check():\n    raise RuntimeError('wrong result')")
    package(site, "numpy", "")
    host = machine(site)
    torch, mindspore = ask(framework_selftest, host).findings
    host.close()
    assert torch.echo_of == ("framework-imports.failed",)
    assert mindspore.echo_of == ()
    assert mindspore.message.startswith("mindspore fails on the CPU: RuntimeError: wrong result (in ")
    assert mindspore.evidence[0] == "RuntimeError: wrong result"


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, each ending."""
    yield ask_probe(check, ends(ended="exited"))
    yield ask_probe(check, ends(ended="exited", status=1, stderr="AssertionError"), "torch")
    yield ask_probe(check, ends(ended="exited"), "torch", until=time.monotonic())
    well: dict[str, object] = {"seconds": 1.0, "versions": {}, "bytes": 1}
    yield ask_probe(check, each(well, died(6), well), "torch")
    yield dies_too_late(check, well)
