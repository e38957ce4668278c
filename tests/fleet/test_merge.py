"""Many reports become one: states, folded findings, skew, and nobody is dropped."""

from __future__ import annotations

from html import escape
from typing import Any, Optional

import pytest

from npudoctor import __version__
from npudoctor.fleet.merge import Fleet, Merger
from npudoctor.fleet.nodes import InvalidNodes, expand, fold
from npudoctor.fleet.reading import Found, Unreadable
from npudoctor.render import exports
from npudoctor.render.fleet.html import fleet_html
from npudoctor.render.fleet.text import fleet_text
from npudoctor.render.style import Style

from .carriers import ready, report


def merged(
    *reports: dict[str, Any], expected: tuple[str, ...] = (), lost: Optional[Unreadable] = None
) -> Fleet:
    merger = Merger(expected)
    merger.add_all([Found(one, "-") for one in reports])
    merger.add_all([lost] if lost else [])
    return merger.fleet()


def test_findings_are_folded_to_node_sets() -> None:
    fleet = merged(*(report(f"node{n}") for n in (1, 2, 3, 5)), ready("node4"))
    assert "node[1-3,5]: cache-server.orphan-segment" in fleet_text(fleet)
    assert fleet.exit_code == 1 and fleet.names("ready") == ("node4",)
    lines = fleet_text(fleet).splitlines()
    assert lines[0] == f"npudoctor {__version__}: 5 nodes"
    assert lines[-2] == "not ready: 4 of 5 nodes"
    assert lines[-1] == "  next: npudoctor fleet fix --cache-server -w 'node[1-3,5]'"
    text = fleet_text(fleet, Style(True, True))
    assert "\x1b[31m✗\x1b[0m node[1-3,5]: cache-server.orphan-segment" in text
    assert "hccl-ports.dead" not in {finding.code for finding in fleet.findings}  # an echo


def test_who_never_answered_is_named() -> None:
    fleet = merged(ready("node1.cluster"), expected=expand("node[1-3]"))
    assert fleet.names("ready") == ("node1",) and fold(fleet.names("silent")) == "node[2-3]"
    assert fleet.exit_code == 2 and "node[2-3]: no report" in fleet_text(fleet)


def test_what_cannot_be_read_decides() -> None:
    assert merged(ready("a")).exit_code == 0
    assert merged(ready("a"), lost=Unreadable(None, "x.json", "contains no report")).exit_code == 2
    assert merged(ready("a"), lost=Unreadable("b", "-", "no route", True)).names("silent") == ("b",)
    assert merged().exit_code == 2


@pytest.mark.parametrize("kind", ["error", "needed", "failed"])
def test_a_report_that_contradicts_its_verdict_is_undetermined(kind: str) -> None:
    """What counts decides, and not the word; what is ignored or folded does not count."""
    told = ready("a")
    finding = {"code": "x.bad", "severity": "error", "message": "it is bad"}
    if kind == "error":
        told["results"].append({"check": "x", "status": "problem", "findings": [finding]})
    elif kind == "needed":
        told["results"].append({"check": "x", "status": "unknown", "needed": True, "findings": []})
    else:
        told["failed"] = True
    assert merged(told).names("undetermined") == ("a",) and merged(told).exit_code == 2
    told = ready("a")
    for reason in ({"ignored": {"reason": None}}, {"caused_by": "y.bad"}, {"severity": "warning"}):
        row = {"check": "x", "status": "problem", "needed": True, "findings": [{**finding, **reason}]}
        told["results"].append(row)
    told["results"].append({"check": "z", "status": "timeout", "needed": False, "findings": []})
    assert merged(told).names("ready") == ("a",)


def test_the_newest_report_of_a_node_counts() -> None:
    old = report("a", started="2026-01-01T00:00:00Z")
    for order in ((old, ready("a")), (ready("a"), old)):
        fleet = merged(*order)
        assert fleet.exit_code == 0 and fleet.superseded == {"a": 1}
        assert "a: 1 older report not counted" in fleet_text(fleet)


def test_skew_names_the_majority_and_the_deviants() -> None:
    reports = [ready(f"n{n}", hccl_env={"variables": {"HCCL_CONNECT_TIMEOUT": "600"}}) for n in range(1, 9)]
    reports += [ready("n9"), ready("n10", hccl_env={"variables": {"HCCL_CONNECT_TIMEOUT": "120"}})]
    reports[8]["results"].append({"check": "hccl-env", "status": "skipped", "findings": []})
    reports[0]["host"]["release"] = "5.10.1"
    fleet = merged(*reports)
    told = {
        skew.fact: (skew.majority.value, [(o.value, o.nodes) for o in skew.others]) for skew in fleet.skew
    }
    assert told["kernel"] == ("5.10.0", [("5.10.1", ("n1",))])
    assert told["HCCL_CONNECT_TIMEOUT"] == ("600", [("120", ("n10",)), (None, ("n9",))])
    assert "HCCL_CONNECT_TIMEOUT: 600 on 8 nodes" in fleet_text(fleet)
    assert "skew: none" in fleet_text(merged(ready("a"), ready("b")))


def with_row(node: str, check: str, status: str, facts: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = ready(node)
    made["results"].append({"check": check, "status": status, "scope": "job", "facts": facts, "findings": []})
    return {**made, **more}


CANN = {"installs": [{"path": "/cann", "version": "8.0.0"}], "active": "/cann"}


@pytest.mark.parametrize(
    "check, status, facts, more, told",
    [
        ("cann-install", "skipped", {}, {}, "none on odd"),
        ("cann-install", "unknown", {}, {}, "odd: CANN"),
        ("cann-install", "ok", {**CANN, "installs": [{"path": "/cann", "version": None}]}, {}, "odd: CANN"),
        ("cann-install", "skipped", {}, {"profile": "quick"}, "odd: CANN"),
        ("cann-install", "skipped", {}, {"scope": "node"}, "odd: CANN"),
        ("clock", "ok", {}, {}, "odd: CANN"),
    ],
)
def test_who_tells_no_value_is_named(
    check: str, status: str, facts: dict[str, Any], more: dict[str, Any], told: str
) -> None:
    good = [with_row(f"n{n}", "cann-install", "ok", CANN) for n in range(3)]
    fleet = merged(*good, with_row("odd", check, status, facts, **more))
    text = fleet_text(fleet)
    assert told in text and told.replace("none on odd", "CANN: 8.0.0 on 3 nodes") in text
    assert ("no value to compare:" in text) == (told == "odd: CANN") == bool(fleet.uncompared)
    page = fleet_html(fleet)
    assert "CANN" in page and "odd" in page


def test_what_must_be_alike_is_compared() -> None:
    facts: dict[str, Any] = {
        "rank_table": {"digest": "ab12", "servers": 2},
        "hccn_config": {"npu/0": {"tls": "0", "mtu": "4096"}, "npu/1": {"tls": "0", "mtu": "4096"}},
        "socket_interfaces": {"interfaces": {}, "hccl_default": "eth0", "mtu": {"eth0": 9000}},
        "package_requirements": {"frameworks": {"torch": "2.1.0"}},
        "nccl_env": {"variables": {"NCCL_DEBUG": "WARN"}},
    }
    other: dict[str, Any] = {
        "rank_table": {"digest": "cd34", "servers": 2},
        "hccn_config": {"npu/0": {"tls": "1", "mtu": "4096"}, "npu/1": {"tls": "0", "mtu": "1500"}},
        "socket_interfaces": {"interfaces": {}, "hccl_default": "enp1s0", "mtu": {"enp1s0": 1500}},
        "package_requirements": {"frameworks": {}},
        "nccl_env": {"variables": {}},
    }
    fleet = merged(*(ready(f"n{n}", **facts) for n in range(3)), ready("odd", **other))
    told = {skew.fact: (skew.majority.value, skew.others[0].value) for skew in fleet.skew}
    assert told == {
        "rank table digest": ("ab12", "cd34"),
        "device TLS": ("0", "0 1"),
        "device MTU": ("4096", "1500 4096"),
        "HCCL default interface": ("eth0", "enp1s0"),
        "interface MTU": ("9000", "1500"),
        "torch": ("2.1.0", None),
        "NCCL_DEBUG": ("WARN", None),
    }
    assert "torch: 2.1.0 on 3 nodes\n    none on odd" in fleet_text(fleet)
    assert "NCCL_DEBUG: WARN on 3 nodes\n    not set on odd" in fleet_text(fleet)
    assert not fleet.uncompared


def test_names_without_end_are_bounded_and_said() -> None:
    liars = [
        ready(f"liar{n}", hccl_env={"variables": {f"X_{n}_{k}": "1" for k in range(5000)}}) for n in range(20)
    ]
    good = [ready(f"n{n}", hccl_env={"variables": {"HCCL_CONNECT_TIMEOUT": "600"}}) for n in range(300)]
    fleet = merged(*good, *liars, ready("odd", hccl_env={"variables": {"HCCL_CONNECT_TIMEOUT": "120"}}))
    text = fleet_text(fleet)
    assert "all variable and package names after the first 500" in " ".join(text.split())
    assert len(fleet.skew) <= 510
    assert "HCCL_CONNECT_TIMEOUT: 600 on 300 nodes" in text and "120 on odd" in text


EVIL = "\x1b]0;x\x07<script>alert(1)</script>\u202e[1-9],$(id)"


def hostile() -> list[dict[str, Any]]:
    odd: list[Any] = [None, 7, [], {}, EVIL, "x" * 100_000, [[]], {"a": None}]
    reports = [report(EVIL, msg=EVIL)]
    reports[0]["results"][0]["findings"][0].update(code=EVIL, message=EVIL, severity=EVIL, action=7)
    reports[0]["results"][0].update(check=EVIL, facts={EVIL: EVIL})
    reports[0]["host"]["release"] = EVIL
    for number, value in enumerate(odd):
        for key in (
            "results",
            "host",
            "target",
            "started",
            "verdict",
            "exit_code",
            "msg",
            "scope",
            "profile",
        ):
            reports.append(report(f"h{number}", **{key: value}))
        for key in ("check", "status", "findings", "facts"):
            one = report(f"h{number}")
            one["results"][0][key] = value
            reports.append(one)
        for key in ("code", "message", "severity", "fix", "ignored", "caused_by", "action"):
            one = report(f"h{number}")
            one["results"][0]["findings"][0][key] = value
            reports.append(one)
    return reports


def test_hostile_reports_harm_nobody() -> None:
    fleet = merged(*hostile())
    page, text = fleet_html(fleet), fleet_text(fleet)
    subjects = exports.subjects(fleet)
    others = [exports.junit(subjects), exports.csv_text(subjects), exports.prometheus(subjects, 0)]
    for shown in (page, text, *others):
        assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "<script>alert" not in page and "<script>alert" not in others[0]


def test_secrets_are_taken_out() -> None:
    one = report("a", msg="password=hunter2-hunter2")
    one["results"][0]["findings"][0]["message"] = "https://bob:hunter2-hunter2@host/ fails"
    one["results"].append({"check": "hccl-env", "status": "ok",
                           "facts": {"variables": {"HCCL_API_TOKEN": "hunter2-hunter2"}}})  # fmt: skip
    other = ready("b", hccl_env={"variables": {"HCCL_API_TOKEN": "hunter3-hunter3"}})
    fleet = merged(one, other)
    assert "hunter" not in fleet_text(fleet) + fleet_html(fleet) + exports.csv_text(exports.subjects(fleet))


@pytest.mark.parametrize("text", ["node[1-", "a b;c[", "$(id)", "@all"])
def test_no_other_text_is_a_node_set(text: str) -> None:
    with pytest.raises(InvalidNodes):
        expand(text)


def test_the_page_says_what_the_text_says_with_its_version_and_date() -> None:
    """Remedies too, also those that are a sentence and no line, and what to type next."""
    one = report("a", started="2026-11-27T01:02:03Z")
    said = {
        "code": "x.y",
        "severity": "error",
        "message": "m",
        "fix": {"title": "ask the NFS server's admin"},
    }
    one["results"].append({"check": "x", "status": "problem", "findings": [said]})
    fleet = merged(one, {**ready("b"), "started": "2026-11-26T00:00:00Z"})
    page, text = fleet_html(fleet, "2026-11-27 09:00:00 +0800"), fleet_text(fleet)
    for line in (
        f"npudoctor {__version__}, 2026-11-27 09:00:00 +0800",
        "reports from 2026-11-26T00:00:00Z to 2026-11-27T01:02:03Z",
        "ask the NFS server&#x27;s admin",
        "next: npudoctor fleet fix --cache-server -w a",
    ):
        assert line in page, line
    assert "next: npudoctor fleet fix --cache-server -w a" in text
    for finding in fleet.findings:
        assert finding.severity == "info" or not finding.fix or escape(finding.fix["title"]) in page
        for command in finding.fix["commands"] if finding.fix else ():
            assert escape(command) in page


def test_rows_keep_their_reason_only_for_who_asks() -> None:
    kept, lean = Merger(details=True), Merger()
    for merger in (kept, lean):
        merger.add(Found(report("a", seconds=1.5), "-"))
    (node,), (other,) = kept.fleet().nodes, lean.fleet().nodes
    assert len(node.details) == len(node.rows) > 0 and other.details == ()
    assert node.seconds == other.seconds == 1.5
