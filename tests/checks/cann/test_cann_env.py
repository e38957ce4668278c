"""cann-env: the variables are those that the installation's own script would set."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.checks.cann.cann_trees import (
    ASCEND,
    CANN,
    LATEST,
    TBE,
    TOOLKIT,
    healthy,
    later,
    latest,
    old,
    old_variables,
    release,
    sourced,
)

from npudoctor import Finding, Severity, Status
from npudoctor.checks.cann.aicpu_path import aicpu_path
from npudoctor.checks.cann.cann_env import cann_env
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, link, unreadable

ATB: dict[str, Content] = {f"{ASCEND}/nnal/atb/set_env.sh": ""}
OTHER = release("8.0.0", "7.6.0.1.220", root="/data/ascend-toolkit")


def told(files: Mapping[str, Content], variables: Mapping[str, str], **packages: str) -> Asked:
    """The answer on a machine with NPUs; an underscore in a name is a hyphen."""
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return ask(cann_env, fake_host(files, variables=variables, packages=named, expect="npu"))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, {})
    yield told({**healthy(), **ATB}, {}, torch_npu="2.5.1")
    yield told(old(), {})
    yield told(healthy(), sourced(ASCEND_OPP_PATH="", TOOLCHAIN_HOME=""))
    yield told(healthy(), sourced(ASCEND_HOME_PATH="/data/gone"))
    yield told(healthy(), sourced(ASCEND_HOME_PATH=TOOLKIT))
    other = sourced(ASCEND_OPP_PATH="/data/ascend-toolkit/8.0.0/opp")
    yield told({**healthy(), **OTHER}, other)
    foreign = f"/data/ascend-toolkit/8.0.0/python/site-packages:{LATEST}/python/site-packages:{LATEST}/{TBE}"
    yield told({**healthy(), **OTHER}, sourced(PYTHONPATH=foreign))
    yield told(healthy(), sourced(PYTHONPATH="", PATH="/usr/bin"))
    yield told({**healthy(), **ATB}, sourced(), vllm_ascend="0.9.1")
    yield told(
        {path: text for path, text in healthy().items() if "set_env" not in path}, {}, torch_npu="2.5.1"
    )


ELSEWHERE = "/data/ascend-toolkit/8.0.0"


def one(asked: Asked) -> Finding:
    (finding,) = asked.findings
    return finding


def lines(asked: Asked) -> tuple[str, ...]:
    fix = one(asked).fix
    assert fix is not None
    return fix.commands


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        (old(), old_variables()),
        (healthy("6.0.1", "1.84.15.1.310"), sourced(ASCEND_TOOLKIT_HOME="")),
        (healthy("7.0.RC1", "7.1.0.1.246"), sourced()),
        (healthy("8.0.0", "7.6.0.1.220"), sourced()),
        (healthy(), sourced()),
        (healthy(), sourced(f"{TOOLKIT}/8.1.RC1")),
        (healthy(), sourced(ASCEND_OPP_PATH=f"{TOOLKIT}/8.1.RC1/opp/")),
        (later(), sourced(f"{CANN}-8.5.0")),
        (later(), sourced(LATEST)),
        (later("9.1.0"), sourced(CANN)),
        ({**healthy(), **ATB}, sourced(ATB_HOME_PATH=f"{ASCEND}/nnal/atb/latest/atb/cxx_abi_1")),
        ({**healthy(), **ATB}, sourced()),
        # A newer script leaves the entries of an older toolkit behind its own.
        (
            {**healthy(), **OTHER},
            sourced(
                PYTHONPATH=f"{LATEST}/python/site-packages:{LATEST}/{TBE}:{ELSEWHERE}/python/site-packages"
            ),
        ),
        (healthy(), sourced(PATH=f"/usr/bin:{TOOLKIT}/8.1.RC1/compiler/ccec_compiler/bin/")),
    ],
)
def test_quiet_when_sourced(files: Mapping[str, Content], variables: Mapping[str, str]) -> None:
    asked = told(files, variables, torch_npu="2.5.1")
    assert (asked.status, asked.codes) == (Status.OK, []), asked.findings


def test_quiet_when_a_pth_file_says_it() -> None:
    path = (SITE, f"{LATEST}/python/site-packages", f"{LATEST}/{TBE}")
    host = fake_host(healthy(), variables=sourced(PYTHONPATH=""), search_path=path, expect="npu")
    assert ask(cann_env, host).codes == []


def test_not_sourced() -> None:
    asked = told({**healthy(), **ATB}, {"PATH": "/usr/bin"}, torch_npu="2.5.1")
    assert (one(asked).code, one(asked).severity) == ("cann-env.not-sourced", Severity.ERROR)
    assert lines(asked) == (f"source {TOOLKIT}/set_env.sh", f"source {ASCEND}/nnal/atb/set_env.sh")


def test_not_sourced_weighs_less_without_a_framework_and_nothing_without_npus() -> None:
    assert one(told(healthy(), {})).severity is Severity.WARNING
    asked = ask(cann_env, fake_host(healthy(), packages={"torch-npu": "2.5.1"}))
    assert (one(asked).severity, asked.status) == (Severity.INFO, Status.OK)


def test_the_later_layout_has_its_script_inside() -> None:
    assert lines(told(later(), {})) == (f"source {CANN}/set_env.sh",)


def test_a_script_of_another_release_is_not_named() -> None:
    files = {**healthy(), **release("8.0.0", "7.6.0.1.220")}
    asked = told(files, {**sourced(f"{TOOLKIT}/8.0.0"), "ASCEND_OPP_PATH": f"{LATEST}/opp"})
    assert lines(asked) == (f"export ASCEND_OPP_PATH={TOOLKIT}/8.0.0/opp",)


def test_before_there_was_a_script_the_lines_are_told() -> None:
    top = f"{ASCEND}/nnae/latest"
    assert lines(told(old(), {"PATH": "/usr/bin"})) == (
        f"export ASCEND_OPP_PATH={top}/opp",
        f"export PYTHONPATH={top}/fwkacllib/python/site-packages:{top}/opp/op_impl/built-in/ai_core/tbe",
        f"export PATH={top}/fwkacllib/ccec_compiler/bin:/usr/bin",
    )


def test_what_was_written_by_hand_is_only_in_part() -> None:
    """Up to 5.0 ASCEND_OPP_PATH alone names it, beside the lists."""
    variables = {name: value for name, value in old_variables().items() if name != "ASCEND_OPP_PATH"}
    assert variables["PYTHONPATH"]
    asked = told(old(), variables)
    assert (one(asked).code, one(asked).severity) == ("cann-env.unset", Severity.ERROR)
    assert lines(asked) == (f"export ASCEND_OPP_PATH={ASCEND}/nnae/latest/opp",)
    assert told(old(), {**variables, "PYTHONPATH": ""}).codes == ["cann-env.not-sourced"]


def test_aicpu_path_echoes_it() -> None:
    host = fake_host(healthy(), expect="npu")
    assert [one(ask(aicpu_path, host)).echo_of] == [("cann-env.not-sourced",)]
    assert ask(cann_env, host).codes == ["cann-env.not-sourced"]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("ASCEND_OPP_PATH", Severity.ERROR),
        ("ASCEND_HOME_PATH", Severity.WARNING),
        ("ASCEND_TOOLKIT_HOME", Severity.INFO),
        ("TOOLCHAIN_HOME", Severity.INFO),
    ],
)
def test_unset(name: str, severity: Severity) -> None:
    asked = told(healthy(), sourced(**{name: ""}))
    assert (one(asked).code, one(asked).severity) == ("cann-env.unset", severity)
    assert lines(asked) == (f"export {name}={sourced()[name]}",)


@pytest.mark.parametrize("value", ["/data/gone", f"{LATEST}/opp", "ascend-toolkit/latest"])
def test_no_such_path(value: str) -> None:
    asked = told(healthy(), sourced(ASCEND_HOME_PATH=value))
    assert (one(asked).code, one(asked).severity) == ("cann-env.no-such-path", Severity.ERROR)
    assert one(asked).echo_of == ()
    assert lines(asked) == (f"source {TOOLKIT}/set_env.sh",)


def test_a_loop_of_links_is_no_such_path() -> None:
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        files = {**healthy(), "/data/a": link("b"), "/data/b": link("a")}
        asked = told(files, sourced(**{name: "/data/a"}))
        assert one(asked).code == "cann-env.no-such-path"


def test_a_blank_is_seen() -> None:
    asked = told(healthy(), sourced(ASCEND_HOME_PATH=f"{LATEST} "))
    assert one(asked).code == "cann-env.no-such-path"
    assert f'ASCEND_HOME_PATH is "{LATEST} ", which contains no CANN' in one(asked).message
    assert one(asked).evidence == (f"ASCEND_HOME_PATH='{LATEST} '",)


def test_latest_is_forgotten() -> None:
    asked = told(healthy(), sourced(ASCEND_HOME_PATH=TOOLKIT))
    assert one(asked).code == "cann-env.no-such-path"
    assert f'"{TOOLKIT}", which contains no CANN: it is in the subfolder latest' in one(asked).message


def test_no_such_path_and_no_cann_at_all() -> None:
    asked = told({}, sourced())
    assert one(asked).code == "cann-env.no-such-path"
    fix = one(asked).fix
    assert fix is not None and fix.commands == ()
    assert one(asked).echo_of == ("cann-install.missing",)
    assert len(one(asked).evidence) == 3


def test_a_latest_that_dangles_is_the_cause() -> None:
    asked = told({**release(), **latest("8.0.0")}, sourced())
    assert one(asked).code == "cann-env.no-such-path"
    assert one(asked).echo_of == ("cann-install.dangling-latest",)


def test_operators_may_lie_anywhere() -> None:
    files: dict[str, Content] = {**healthy(), "/data/operators/built-in/x": ""}
    assert told(files, sourced(ASCEND_OPP_PATH="/data/operators")).codes == []


@pytest.mark.parametrize("name", ["ASCEND_OPP_PATH", "ASCEND_TOOLKIT_HOME", "TOOLCHAIN_HOME"])
def test_mixed(name: str) -> None:
    wrong = sourced(ELSEWHERE)[name]
    asked = told({**healthy(), **OTHER}, sourced(**{name: wrong}))
    assert (one(asked).code, one(asked).severity) == ("cann-env.mixed-installs", Severity.ERROR)
    assert f"{ELSEWHERE} (8.0.0)" in one(asked).message
    assert f"{name}={wrong}" in one(asked).evidence
    assert lines(asked) == (f"source {TOOLKIT}/set_env.sh",)


def test_a_copy_of_the_same_release_is_a_warning() -> None:
    files = {**healthy(), **release(root="/data/ascend-toolkit"), **latest(root="/data/ascend-toolkit")}
    asked = told(files, sourced(ASCEND_OPP_PATH="/data/ascend-toolkit/latest/opp"))
    assert (one(asked).code, one(asked).severity) == ("cann-env.mixed-installs", Severity.WARNING)


def test_another_installation_comes_first() -> None:
    own = f"{LATEST}/python/site-packages:{LATEST}/{TBE}"
    asked = told({**healthy(), **OTHER}, sourced(PYTHONPATH=f"{ELSEWHERE}/python/site-packages:{own}"))
    assert (one(asked).code, one(asked).severity) == ("cann-env.other-install-first", Severity.ERROR)
    assert lines(asked) == (f"export PYTHONPATH={own}:{ELSEWHERE}/python/site-packages",)
    asked = told({**healthy(), **OTHER}, sourced(PATH=f"{ELSEWHERE}/compiler/ccec_compiler/bin:/usr/bin"))
    assert (one(asked).code, one(asked).severity) == ("cann-env.other-install-first", Severity.WARNING)


def test_missing_entries() -> None:
    asked = told(healthy(), sourced(PYTHONPATH=f"/mine::{LATEST}/python/site-packages"))
    assert (one(asked).code, one(asked).severity) == ("cann-env.missing-entry", Severity.WARNING)
    assert lines(asked) == (f"export PYTHONPATH={LATEST}/{TBE}:/mine:{LATEST}/python/site-packages",)
    assert one(asked).fix is not None
    asked = told(healthy(), sourced(PATH="/usr/bin"))
    assert lines(asked) == (f"export PATH={LATEST}/compiler/ccec_compiler/bin:/usr/bin",)


def test_the_script_of_atb() -> None:
    asked = told({**healthy(), **ATB}, sourced(), vllm_ascend="0.9.1")
    assert (one(asked).code, one(asked).severity) == ("cann-env.atb-not-sourced", Severity.WARNING)
    assert lines(asked) == (f"source {ASCEND}/nnal/atb/set_env.sh",)


def test_skipped_without_cann_and_in_an_image() -> None:
    assert told({}, {}).status is Status.SKIPPED
    assert ask(cann_env, fake_host(healthy(), root="/srv/image")).status is Status.SKIPPED


def test_cannot_tell_when_it_may_not_look() -> None:
    assert told({TOOLKIT: unreadable(errno.EACCES)}, sourced()).status is Status.UNKNOWN
