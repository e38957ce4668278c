"""Two snapshots: alike, different, unknown; and what each node has for itself."""

from __future__ import annotations

import pytest

from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.facts.snapshot.compare import SnapshotComparison, compare, only_in
from npudoctor.facts.snapshot.document import Snapshot, Unread
from npudoctor.facts.snapshot.values import Value

Tables = dict[str, dict[str, Value]]


def side(tables: Tables, *unread: Unread, whole: bool = True) -> Snapshot:
    return Snapshot("node", "", whole, tables, unread)


def compared(first: Tables, second: Tables) -> SnapshotComparison:
    return compare(side(first), side(second))


def test_alike_is_0() -> None:
    tables: Tables = {"system": {"kernel": "5.10", "container": False}, "packages": {"torch": "2.1.0"}}
    comparison = compared(tables, tables)
    assert (comparison.exit_code, comparison.alike, comparison.differences) == (0, 3, ())


@pytest.mark.parametrize(
    ("section", "fact", "kind"),
    [
        ("packages", "torch-npu", "version"),
        ("packages", "numpy", "package"),
        ("cann", "version", "version"),
        ("variables", "HCCL_EXEC_TIMEOUT", "variable"),
        ("limits", "Max open files, soft", "limit"),
        ("network", "eth0 MTU", "network"),
        ("accelerator", "NPUs", "device"),
        ("system", "kernel", "system"),
        ("sysctls", "vm.swappiness", "system"),
        ("check rank-table", "digest", "other"),
    ],
)
def test_different_is_1_and_says_what_it_is_about(section: str, fact: str, kind: str) -> None:
    comparison = compared({section: {fact: "1"}}, {section: {fact: "2"}})
    (difference,) = comparison.differences
    assert (difference.kind, difference.first, difference.second, comparison.exit_code) == (kind, "1", "2", 1)


def test_a_package_that_is_not_there_is_a_difference() -> None:
    comparison = compared({"packages": {"torch": "2.1.0"}}, {"packages": {}})
    assert [(one.first, one.second) for one in comparison.differences] == [("2.1.0", None)]


def test_unknown_is_not_alike() -> None:
    unread = Unread("packages", "", "not permitted")
    comparison = compare(side({"packages": {"torch": "2.1.0"}}), side({"packages": {}}, unread))
    (open_one,) = comparison.uncompared
    assert (open_one.which, open_one.reason, comparison.exit_code) == (2, "not permitted", 2)


def test_unknown_and_nothing_there_is_not_alike_either() -> None:
    comparison = compare(side({"hccn": {}}, Unread("hccn", "", "only root", True)), side({"hccn": {}}))
    assert comparison.exit_code == 2


def test_what_neither_can_see_from_its_place_does_not_decide() -> None:
    nobody = side({"hccn": {}}, Unread("hccn", "", "only root may run", True))
    comparison = compare(nobody, nobody)
    assert comparison.exit_code == 0 and not comparison.uncompared[0].decides
    crashed = side({"hccn": {}}, Unread("hccn", "", "it hangs"))
    assert compare(crashed, crashed).exit_code == 2


def test_a_difference_counts_more_than_what_is_unknown() -> None:
    first = side({"system": {"kernel": "1"}}, Unread("packages", "", "why"))
    assert compare(first, side({"system": {"kernel": "2"}, "packages": {"torch": "1"}})).exit_code == 1


def test_a_setting_that_an_older_release_does_not_tell_is_unknown() -> None:
    comparison = compared({"sysctls": {"vm.swappiness": "60"}}, {"sysctls": {}})
    assert (comparison.differences, comparison.exit_code) == ((), 2)
    assert compared({"new": {"a": "1"}}, {}).exit_code == 2


@pytest.mark.parametrize(
    ("section", "fact"),
    [
        ("variables", "RANK"),
        ("variables", "HOSTNAME"),
        ("variables", "SLURM_JOB_ID"),
        ("variables", "MASTER_ADDR"),
        ("variables", "SSH_CONNECTION"),
        ("hccn", "NPU 0 address"),
        ("check hccl-interface", "address"),
        ("python", "chosen by"),
    ],
)
def test_what_each_node_has_for_itself_is_no_difference(section: str, fact: str) -> None:
    comparison = compared({section: {fact: "1"}}, {section: {fact: "2"}})
    assert (comparison.exit_code, comparison.own) == (0, ((section, fact),))


def test_what_changes_every_moment_is_not_compared() -> None:
    assert (
        compared({"check disk-space": {"/tmp free": 1}}, {"check disk-space": {"/tmp free": 2}}).exit_code
        == 0
    )


def test_hidden_values_are_not_called_alike() -> None:
    tables: Tables = {"variables": {"HCCL_TOKEN": HIDDEN}}
    assert compared(tables, tables).own == (("variables", "HCCL_TOKEN"),)
    assert compared(tables, {"variables": {}}).exit_code == 1


def test_a_report_says_less_and_that_is_said_once() -> None:
    packages: dict[str, Value] = {f"p{number}": "1" for number in range(50)}
    whole = side({"packages": packages, "system": {"kernel": "5.10"}})
    comparison = compare(whole, side({"system": {"kernel": "5.10"}}, whole=False))
    assert [(one.section, one.fact) for one in comparison.uncompared] == [("packages", "")]
    assert comparison.exit_code == 2


def test_of_two_reports_their_variables_are_compared() -> None:
    first: Tables = {"check hccl-env": {"variables HCCL_EXEC_TIMEOUT": "1"}}
    second: Tables = {"check hccl-env": {"variables HCCL_EXEC_TIMEOUT": "2"}}
    assert compare(side(first, whole=False), side(second, whole=False)).exit_code == 1
    assert compared(first, second).exit_code == 0  # a snapshot says it among its variables


def test_lists_tell_what_one_has_alone() -> None:
    assert only_in("/a/b:/c/d", "/c/d:/e/f") == ["/a/b"]
    assert only_in(("a", "b"), ("b",)) == ["a"]
    assert only_in("8.2", "8.3") is None
