"""Which CANN is taken, and when none can be."""

from __future__ import annotations

import pytest
from tests.checks.cann import cann_trees as trees

from npudoctor.environment import required_changes
from npudoctor.host import CannotTell, Options
from npudoctor.testing import fake_host, unreadable

ASCEND = "/usr/local/Ascend"


def test_a_machine_for_other_things_is_no_failure() -> None:
    found = required_changes(fake_host())
    assert found.changes == {}
    assert found.notes == ("this machine has neither an NPU nor CANN: nothing needs to be set",)


def test_without_cann_on_an_npu_node_nothing_can_be_said() -> None:
    with pytest.raises(CannotTell, match="CANN is not installed, or not in one of the usual places"):
        required_changes(fake_host(expect="npu"))


def test_a_variable_that_names_a_cann_which_is_not_here() -> None:
    with pytest.raises(CannotTell, match="ASCEND_HOME_PATH is /gone"):
        required_changes(fake_host(variables={"ASCEND_HOME_PATH": "/gone"}))


def test_a_gpu_node_that_shares_its_startup_files_with_npu_nodes_goes_on() -> None:
    found = required_changes(fake_host(variables={"ASCEND_HOME_PATH": "/gone"}, expect="gpu"))
    assert found.changes == {}


def test_a_closed_folder_of_ascend_does_not_stop_a_gpu_node() -> None:
    closed = {ASCEND: unreadable()}
    found = required_changes(fake_host(closed, expect="gpu", euid=1000, user="trainer"))
    assert found.changes == {} and ASCEND in found.notes[0]
    with pytest.raises(CannotTell, match=ASCEND):
        required_changes(fake_host(closed, expect="npu", euid=1000, user="trainer"))


def test_a_node_without_an_npu_gets_the_environment_of_its_cann() -> None:
    """A login node, or a container that is built."""
    found = required_changes(fake_host(trees.healthy(), variables={"PATH": "/usr/bin"}))
    assert found.changes["ASCEND_HOME_PATH"] == trees.LATEST


def test_of_several_one_is_taken_and_named() -> None:
    files = {**trees.healthy(), **trees.later("8.5.0", root="/opt/Ascend")}
    files["/etc/Ascend/ascend_cann_install.info"] = "Toolkit_InstallPath=/opt/Ascend\n"
    found = required_changes(fake_host(files, variables={"PATH": "/usr/bin"}))
    assert found.changes["ASCEND_HOME_PATH"] == "/opt/Ascend/cann-8.5.0"
    (note,) = [note for note in found.notes if "several CANN" in note]
    assert "/opt/Ascend/cann (8.5.0) is used" in note and f"{trees.LATEST} (8.1.RC1)" in note


def test_a_release_beside_latest_is_none_to_choose_from() -> None:
    files = {**trees.healthy(), **trees.release("8.0.0", "7.6.0.1.220")}
    found = required_changes(fake_host(files, variables={"PATH": "/usr/bin"}))
    assert not [note for note in found.notes if "several CANN" in note]


def test_of_releases_that_no_link_chooses_from_one_is_taken_and_named() -> None:
    files = {**trees.later("9.0.0"), **trees.later("9.1.0")}
    files = {path: content for path, content in files.items() if path != f"{ASCEND}/cann"}
    files = {path: content for path, content in files.items() if "/latest" not in path}
    found = required_changes(fake_host(files, variables={"PATH": "/usr/bin"}))
    taken = found.changes["ASCEND_HOME_PATH"]
    (note,) = [note for note in found.notes if "several CANN" in note]
    assert f"{taken} (" in note and note.count(f"{ASCEND}/cann-9.") == 2


def test_who_names_one_that_is_gone_is_told_which_is_taken() -> None:
    found = required_changes(
        fake_host(trees.healthy(), variables={"PATH": "/usr/bin", "ASCEND_HOME_PATH": "/gone"})
    )
    assert found.changes["ASCEND_HOME_PATH"] == trees.LATEST
    assert (
        f"ASCEND_HOME_PATH is /gone, which contains no CANN: {trees.LATEST} (8.1.RC1) is used" in found.notes
    )


def test_a_damaged_cann_is_not_mended_with_another_one() -> None:
    """Half of each would start, and fail on every operator."""
    files = {**trees.later("9.0.0"), **trees.later("9.1.0")}
    files = {
        path: content for path, content in files.items() if not path.startswith(f"{ASCEND}/cann-9.1.0/opp")
    }
    files[f"{ASCEND}/cann-9.1.0/compiler/version.info"] = "Version=9.1.0\n"
    variables = {"PATH": "/usr/bin", "ASCEND_HOME_PATH": f"{ASCEND}/cann-9.1.0"}
    host = fake_host(files, variables=variables, expect="npu")
    with pytest.raises(CannotTell, match=r"ASCEND_AICPU_PATH is \S*/cann-9.1.0, which has no folder opp"):
        required_changes(host)


def test_who_names_one_gets_that_one() -> None:
    files = {**trees.healthy(), **trees.release("8.0.0", "7.6.0.1.220")}
    chosen = f"{trees.TOOLKIT}/8.0.0"
    found = required_changes(fake_host(files, variables={"PATH": "/usr/bin", "ASCEND_HOME_PATH": chosen}))
    assert "ASCEND_HOME_PATH" not in found.changes
    assert found.changes["ASCEND_OPP_PATH"] == f"{chosen}/opp"


def test_other_software_with_a_folder_named_runtime_is_no_cann() -> None:
    """In an environment of two CANN the entries of the other one go, and nothing else."""
    files = {
        **trees.healthy(),
        **trees.release("8.2.RC1", "8.2.0.0.201", root="/opt/a"),
        "/opt/dot/runtime/x": "",
    }
    other = "/opt/a/8.2.RC1"
    variables = {
        **trees.sourced(),
        "PYTHONPATH": f"{other}/python/site-packages:{trees.sourced()['PYTHONPATH']}",
        "PATH": f"/opt/dot/runtime:{other}/bin:{trees.sourced()['PATH']}",
    }
    found = required_changes(fake_host(files, variables=variables, options=Options()))
    assert found.changes["PATH"] == f"/opt/dot/runtime:{trees.sourced()['PATH']}"
    assert other not in str(found.changes["PYTHONPATH"])
