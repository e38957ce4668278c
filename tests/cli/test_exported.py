"""`check --format junit|prometheus|nagios|npd`, read by what reads them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from .command import Npudoctor

SICK, WELL = ("check", "--expect", "npu"), ("check", "--expect", "none", "clock", "memory")
_SAMPLE = re.compile(r'npudoctor_\w+(\{(\w+="([^"\\\n]|\\.)*",?)+\})? -?\d+(\.\d+)?')


def test_junit_has_a_case_for_each_check(npudoctor: Npudoctor) -> None:
    done, well = npudoctor.each([(*line, "--format", "junit") for line in (SICK, WELL)])
    (suite,) = ElementTree.fromstring(done.out)  # noqa: S314
    cases = {case.get("name"): case for case in suite}
    assert done.status == 1 and suite.get("failures") == "1"
    (failure,) = cases["accelerator"]
    assert (failure.tag, failure.get("type")) == ("failure", "accelerator.missing")
    (suite,) = ElementTree.fromstring(well.out)  # noqa: S314
    assert (well.status, suite.get("failures"), suite.get("errors"), suite.get("tests")) == (0, "0", "0", "2")


def test_prometheus_reads_every_line(npudoctor: Npudoctor) -> None:
    done = npudoctor(*SICK, "--format", "prometheus", "--output", "npudoctor.prom")
    text = (npudoctor.folder / "npudoctor.prom").read_text()
    samples = [line for line in text.splitlines() if not line.startswith("# ")]
    assert (done.status, done.out) == (1, "")
    assert [line for line in samples if not _SAMPLE.fullmatch(line)] == []
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
    assert 'code="accelerator.missing",severity="error"} 1' in text
    assert re.search(r"^npudoctor_ready\{.*\} 0$", text, re.M)
    assert [path.name for path in npudoctor.folder.glob("*prom*")] == ["npudoctor.prom"]


def test_nagios_has_its_own_statuses(npudoctor: Npudoctor) -> None:
    lines = [SICK, WELL, ("check", "accelerator"), ("check", "--scope", "nothing")]
    sick, well, unknown, wrong = npudoctor.each([(*line, "--format", "nagios") for line in lines])
    assert npudoctor("check", "accelerator", "--format", "nagios").status == 3
    first, *rest = sick.out.splitlines()
    assert sick.status == 2 and rest[0].startswith("accelerator.missing: ")
    assert re.fullmatch(r"CRITICAL: [^|]+ \| 'errors'=1;;0 'warnings'=\d+;0 'seconds'=\d+\.\d\ds", first)
    assert (well.status, well.out.split(":")[0]) == (0, "OK")
    assert (unknown.status, unknown.out.split(":")[0]) == (3, "UNKNOWN")
    assert (wrong.status, wrong.out.split(":")[0], wrong.err) == (3, "UNKNOWN", "")


def test_node_problem_detector_keeps_80_bytes(npudoctor: Npudoctor) -> None:
    lines = [(*SICK, "--lang", "en"), (*SICK, "--lang", "zh"), WELL, ("check", "accelerator")]
    *sick, well, unknown = npudoctor.each([(*line, "--format", "npd") for line in lines])
    for done in sick:
        assert done.status == 1 and len(done.out.encode()) <= 80 and done.out.count("\n") == 1
        assert done.out.startswith("accelerator.missing: ")
    assert (well.out, unknown.status) == ("ready\n", 2)


def test_others_are_refused(npudoctor: Npudoctor) -> None:
    for done in npudoctor.each([("check", "--format", name) for name in ("xml", "sarif", "")]):
        assert (done.status, done.out) == (64, "")
        assert done.err.strip().endswith("is not one of text, json, junit, prometheus, nagios, npd")
