"""`fleet report` from the command line: statuses, formats, node sets."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any
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
    well, ill = npudoctor.each([(*run, "ready"), (*run, "not-ready", "-w", "node[1-5]")])
    assert (well.out, ill.out) == ("node[1-2]\n", "node3\n")
    assert npudoctor(*run, "silent", SLURM_JOB_NODELIST="node[1-5]").out == "node[4-5]\n"


def test_the_status_is_the_verdict(npudoctor: Npudoctor) -> None:
    assert npudoctor("fleet", "report", str(write(npudoctor, ready("a")))).status == 0
    assert npudoctor("fleet", "report", str(write(npudoctor, report("a"), ready("b")))).status == 1
    assert npudoctor("fleet", "report", str(write(npudoctor, ready("a"))), "-w", "a,b").status == 2
    wrong = ((), ("/nowhere",), ("-", "--format", "xml"), ("-", "--nodes", "x"), ("-", "-w", "a["))
    for done in npudoctor.each([("fleet", "report", *words) for words in wrong]):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done


def test_other_programs_can_read_it(npudoctor: Npudoctor) -> None:
    path = str(write(npudoctor, ready("a"), report("b")))
    forms = (("junit",), ("prometheus",), ("csv",), ("html", "--output", "page.html"))
    lines = [("fleet", "report", path, "--format", *form) for form in forms]
    junit, prometheus, csv, page = npudoctor.each(lines)
    suites = ElementTree.fromstring(junit.out)  # noqa: S314
    assert [suite.get("failures") for suite in suites] == ["0", "1"]
    assert 'npudoctor_ready{node="b"} 0' in prometheus.out
    assert "b,not_ready,error,cache-server," in csv.out
    assert page.out == "" and "<h1" in (npudoctor.folder / "page.html").read_text()


def test_json_survives_what_no_json_is(npudoctor: Npudoctor) -> None:
    for levels in (300, 470, 490, 900):
        tower: object = 1
        for _level in range(levels):
            tower = [tower]
        path = str(write(npudoctor, ready("a", x={"y": float("nan")}), ready("b", x={"y": tower})))
        done = npudoctor("fleet", "report", path, "--format", "json")
        assert done.json["reports"][0]["node"] == "a" and len(done.json["reports"]) == 2


def test_a_set_of_several_states_leaves_no_node_out_that_may_be_dead(npudoctor: Npudoctor) -> None:
    """What `srun --exclude` gets: whoever is not ready, whoever could not be judged, whoever said nothing."""
    open_one = {
        **ready("node3"),
        "verdict": "undetermined",
        "exit_code": 2,
        "msg": "undetermined: no result from x",
    }
    path = str(write(npudoctor, ready("node1"), report("node2"), open_one))
    run = ("fleet", "report", path, "-w", "node[1-5]", "--nodes")
    states = ("not-ready,undetermined,silent", "ready,silent", "ready,", "ready,x", ",")
    bad, some, *wrong = npudoctor.each([(*run, words) for words in states])
    assert (bad.out, some.out) == ("node[2-5]\n", "node[1,4-5]\n")
    for done in wrong:
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1)


def test_whose_report_nobody_can_read_is_in_no_set_and_is_named(npudoctor: Npudoctor) -> None:
    (npudoctor.folder / "torn.json").write_text('{"schema": "npudoctor.report/1", "ver')
    path = str(write(npudoctor, report("node1")))
    done = npudoctor("fleet", "report", path, "torn.json", "--nodes", "not-ready,undetermined,silent")
    assert done.out == "node1\n"
    assert done.err.startswith("npudoctor: ") and "torn.json: " in done.err and done.err.count("\n") == 1


def test_its_own_json_is_read_again(npudoctor: Npudoctor) -> None:
    """As it was: names by which nodes were asked, who is silent, what nobody could read."""
    reports: list[dict[str, Any]] = [{"node": f"alias{n}", "report": ready("localhost")} for n in (1, 2)]
    reports += [{"node": "alias3", "report": report("localhost")}]
    reports += [{"node": "gone", "error": "no route to host", "unreachable": True}]
    (npudoctor.folder / "torn.json").write_text('{"schema": "npudoctor.report/1", "ver')
    run = ("fleet", "report", str(write(npudoctor, *reports)), "torn.json", "--format", "json")
    first = npudoctor(*run, "-w", "alias[1-3],gone,never")
    (npudoctor.folder / "fleet.json").write_text(first.out)
    again = npudoctor("fleet", "report", "fleet.json", "--format", "json")
    schema = json.loads((files("npudoctor.render") / "schemas/fleet-1.json").read_text("utf-8"))
    jsonschema.validate(first.json, schema)
    assert first.json["nodes"] == {
        "ready": "alias[1-2]", "not_ready": "alias3", "undetermined": "", "silent": "gone,never"
    }  # fmt: skip
    before, after = first.json, again.json
    for document in (before, after):
        del document["counts"]["unreadable"]  # who never answered is said in so many words now
    for key in ("verdict", "exit_code", "msg", "nodes", "counts", "findings", "skew", "uncompared"):
        assert after[key] == before[key], key
    assert again.status == first.status
    for row in again.json["reports"]:
        assert row.get("schema") == "npudoctor.report/1" or row["error"]


def test_a_merged_document_without_newer_fields_is_read(npudoctor: Npudoctor) -> None:
    document = npudoctor(
        "fleet", "report", str(write(npudoctor, ready("a"), report("b"))), "--format", "json"
    ).json
    for row in document["reports"]:
        del row["node"]
        for result in row["results"]:
            result.pop("seconds"), result.pop("reason"), result.pop("facts", None)
        for key in ("seconds", "profile", "scope", "target", "counts", "started"):
            row.pop(key)
    document["reports"].append({"node": "c", "source": "c", "error": "no route"})
    (npudoctor.folder / "old.json").write_text(json.dumps(document))
    again = npudoctor("fleet", "report", "old.json", "--format", "json").json
    assert again["nodes"] == {"ready": "a", "not_ready": "b", "undetermined": "c", "silent": ""}
    errors = {finding["nodes"] for finding in again["findings"] if finding["severity"] == "error"}
    assert errors == {"b"}
    forms = ("text", "html", "junit", "prometheus", "csv", "jsonl")
    for done in npudoctor.each([("fleet", "report", "old.json", "--format", form) for form in forms]):
        assert (done.status, done.err) == (1, "") and done.out


def test_without_the_extra_it_says_what_to_type(npudoctor: Npudoctor) -> None:
    """All commands of fleet: this very Python, one line, 64."""
    hidden = "import sys; sys.modules['ClusterShell'] = None; from npudoctor.__main__ import main"
    path = str(write(npudoctor, ready("a")))
    for words in (
        ("check", "-w", "n[1-2]"), ("check", "--engine", "slurm", "-w", "n1"), ("report", path),
        ("fix", "--cache-server", "-w", "n1"), ("pairs", "-w", "n1,n2"),
    ):  # fmt: skip
        done = npudoctor.shell(f'{sys.executable} -c "{hidden}; sys.exit(main())" fleet {" ".join(words)}')
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done.err
        assert f"{sys.executable} -m pip install 'npudoctor[fleet]'; npudoctor.pyz includes it" in done.err


def test_a_set_without_nodes_is_nothing(npudoctor: Npudoctor, tmp_path: Path) -> None:
    """`srun --exclude="$bad"`, and `while read`: an empty line would be a name."""
    (tmp_path / "ready.json").write_text(json.dumps(ready("node1")))
    done = npudoctor("fleet", "report", str(tmp_path / "ready.json"), "--nodes", "not-ready")
    assert (done.status, done.out) == (0, "")
