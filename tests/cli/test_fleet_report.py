"""`fleet report` from the command line: statuses, formats, node sets."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
from tests.fleet.carriers import ready, report

from .command import Npudoctor


def write(npudoctor: Npudoctor, *reports: object) -> Path:
    path = npudoctor.folder / "reports.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in reports))
    return path


def test_a_real_report_is_merged(npudoctor: Npudoctor) -> None:
    (npudoctor.folder / "real.json").write_text(
        npudoctor("check", "--format", "json", "--expect", "none").out
    )
    done = npudoctor("fleet", "report", "real.json", "--format", "json")
    schema = json.loads((files("npudoctor.render") / "schemas/fleet-1.json").read_text("utf-8"))
    jsonschema.validate(done.json, schema)
    assert done.json["reports"][0]["schema"] == "npudoctor.report/1" and done.status == done.json["exit_code"]


def test_node_sets_are_for_srun(npudoctor: Npudoctor) -> None:
    path = str(write(npudoctor, ready("node1"), ready("node2"), report("node3")))
    run = ("fleet", "report", path, "--nodes")
    assert npudoctor(*run, "ready").out == "node[1-2]\n"
    assert npudoctor(*run, "not-ready", "-w", "node[1-5]").out == "node3\n"
    assert npudoctor(*run, "silent", SLURM_JOB_NODELIST="node[1-5]").out == "node[4-5]\n"


def test_the_status_is_the_verdict(npudoctor: Npudoctor) -> None:
    assert npudoctor("fleet", "report", str(write(npudoctor, ready("a")))).status == 0
    assert npudoctor("fleet", "report", str(write(npudoctor, report("a"), ready("b")))).status == 1
    assert npudoctor("fleet", "report", str(write(npudoctor, ready("a"))), "-w", "a,b").status == 2
    for words in ((), ("/nowhere",), ("-", "--format", "xml"), ("-", "--nodes", "x"), ("-", "-w", "a[")):
        done = npudoctor("fleet", "report", *words)
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done


def test_other_programs_can_read_it(npudoctor: Npudoctor) -> None:
    path = str(write(npudoctor, ready("a"), report("b")))
    suites = ElementTree.fromstring(npudoctor("fleet", "report", path, "--format", "junit").out)  # noqa: S314
    assert [suite.get("failures") for suite in suites] == ["0", "1"]
    assert 'npudoctor_ready{node="b"} 0' in npudoctor("fleet", "report", path, "--format", "prometheus").out
    assert "b,not_ready,error,cache-server," in npudoctor("fleet", "report", path, "--format", "csv").out
    page = npudoctor("fleet", "report", path, "--format", "html", "--output", "page.html")
    assert page.out == "" and "<h1" in (npudoctor.folder / "page.html").read_text()


def test_json_survives_what_no_json_is(npudoctor: Npudoctor) -> None:
    for levels in (300, 470, 490, 900):
        tower: object = 1
        for _level in range(levels):
            tower = [tower]
        path = str(write(npudoctor, ready("a", x={"y": float("nan")}), ready("b", x={"y": tower})))
        done = npudoctor("fleet", "report", path, "--format", "json")
        assert done.json["reports"][0]["node"] == "a" and len(done.json["reports"]) == 2
