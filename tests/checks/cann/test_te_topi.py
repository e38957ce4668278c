"""te-topi: te and hccl of the interpreter are those of the CANN in use."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.cann_trees import (
    ASCEND,
    CANN,
    LATEST,
    TBE,
    TOOLKIT,
    healthy,
    later,
    old,
    old_variables,
    sourced,
)
from tests.checks.cann.test_cann_env import OTHER

from npudoctor import Finding, Severity, Status
from npudoctor.checks.cann.cann_env import cann_env
from npudoctor.checks.cann.te_topi import te_topi
from npudoctor.host import Options
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, package_files, unreadable

FRAMEWORK = {"torch-npu": "2.5.1"}
WHEELS: dict[str, Content] = {
    f"{TOOLKIT}/8.1.RC1/compiler/lib64/te-0.4.0-py3-none-any.whl": "",
    f"{TOOLKIT}/8.1.RC1/compiler/lib64/topi-0.4.0-py3-none-any.whl": "",
    f"{TOOLKIT}/8.1.RC1/hccl/lib64/hccl-0.1.0-py3-none-any.whl": "",
}


def te(version: str, site: str = SITE) -> dict[str, Content]:
    """A te in a folder of the search path."""
    return {f"{site}/te/__init__.py": "", f"{site}/te/version.py": f'version = "{version}"\n'}


def told(files: Mapping[str, Content], variables: Mapping[str, str], **more: Any) -> Asked:
    """The answer where a framework that runs on CANN is installed."""
    settings = {"packages": FRAMEWORK, "expect": "npu", **more}
    return ask(te_topi, fake_host(files, variables=variables, **settings))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, {})
    yield told(healthy(), {}, packages={})
    yield told({f"{LATEST}/opp/built-in/x": ""}, {"ASCEND_HOME_PATH": LATEST})
    yield told(healthy(), {})
    yield told(
        {**old(), **te("1.76.22.3.220")}, {name: old_variables()[name] for name in ("ASCEND_OPP_PATH",)}
    )
    yield told({**healthy(), **WHEELS, **te("7.5.0.1.129")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.5.0.1.129")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.7.0.1.212")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.5.0.1.129")}, sourced())
    yield told({**healthy(), f"{SITE}/te": unreadable()}, sourced(PYTHONPATH=""))


NONE = sourced(PYTHONPATH="")


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
        (healthy("6.0.1", "1.84.15.1.310"), sourced()),
        (healthy(), sourced()),
        (healthy("8.3.RC1", "8.3.0.1.231"), sourced()),
        (later(), sourced(f"{CANN}-8.5.0")),
        ({**healthy(), **te("7.7.0.1.238")}, NONE),
    ],
)
def test_quiet_when_it_is_of_this_cann(files: Mapping[str, Content], variables: Mapping[str, str]) -> None:
    asked = told(files, variables)
    assert (asked.status, asked.codes) == (Status.OK, []), asked.findings


def test_skipped_where_this_cann_brings_none() -> None:
    asked = told({path: text for path, text in healthy().items() if "/python/" not in path}, NONE)
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


def test_facts_tell_every_copy() -> None:
    asked = told({**healthy(), **te("7.7.0.1.238")}, sourced())
    site = f"{LATEST}/python/site-packages"
    assert asked.facts["te"] == [[site, "7.7.0.1.238"], [SITE, "7.7.0.1.238"]]
    assert asked.facts["component"] == "7.7.0.1.238"


def test_an_old_te_and_the_wheels_of_the_toolkit() -> None:
    asked = told({**healthy(), **WHEELS, **te("7.5.0.1.129")}, NONE)
    assert (one(asked).code, one(asked).severity) == ("te-topi.other-version", Severity.ERROR)
    assert one(asked).evidence == (f"{SITE}/te/version.py: 7.5.0.1.129",)
    wheel = f"{LATEST}/compiler/lib64/te-0.4.0-py3-none-any.whl"
    pip = "/usr/bin/python3 -I -m pip --isolated install --no-index --no-deps --upgrade --force-reinstall"
    assert lines(asked) == (f"{pip} {wheel}",), "no topi from 8.1 on"


def test_up_to_8_0_topi_goes_with_te() -> None:
    (line,) = lines(told({**old(), **te("1.76.22.3.220")}, {"ASCEND_OPP_PATH": f"{ASCEND}/nnae/latest/opp"}))
    folder = f"{ASCEND}/nnae/latest/fwkacllib/lib64"
    assert line.endswith(f"{folder}/te-0.4.0-py3-none-any.whl {folder}/topi-0.4.0-py3-none-any.whl")


def test_an_old_hccl() -> None:
    files = {**healthy(), **WHEELS, f"{SITE}/hccl/sys_version.py": "__sys_version__ = '7.5.0.1.129'\n"}
    asked = told({**files, **te("7.7.0.1.238")}, NONE)
    assert one(asked).code == "te-topi.other-version"
    assert "hccl/lib64/hccl-0.1.0" in lines(asked)[0]


def test_without_wheels_pythonpath_is_the_way() -> None:
    asked = told({**healthy(), **te("7.5.0.1.129")}, sourced(PYTHONPATH="/mine"))
    assert lines(asked) == (f"export PYTHONPATH={LATEST}/python/site-packages:{LATEST}/{TBE}:/mine",)
    assert one(asked).echo_of == ("cann-env.not-sourced",)


def test_one_of_another_cann_on_pythonpath() -> None:
    site = "/data/ascend-toolkit/8.0.0/python/site-packages"
    asked = told({**healthy(), **OTHER, **WHEELS}, sourced(PYTHONPATH=site))
    assert {finding.code for finding in asked.findings} == {"te-topi.other-version"}
    for finding in asked.findings:
        assert finding.echo_of == ("cann-env.other-install-first",)
        assert finding.fix is not None
        assert finding.fix.commands == (
            f"export PYTHONPATH={LATEST}/python/site-packages:{LATEST}/{TBE}:{site}",
        )


def test_missing() -> None:
    asked = told(healthy(), NONE)
    assert (one(asked).code, one(asked).severity) == ("te-topi.missing", Severity.WARNING)
    assert "cann-env.not-sourced" in one(asked).echo_of
    assert lines(asked) == (f"export PYTHONPATH={LATEST}/python/site-packages:{LATEST}/{TBE}",)


def test_the_line_is_that_of_cann_env() -> None:
    variables = sourced(PYTHONPATH="/own")
    both = ask(cann_env, fake_host(healthy(), variables=variables, packages=FRAMEWORK, expect="npu"))
    assert one(both).fix is not None and one(both).code == "cann-env.missing-entry"
    assert one(both).fix.commands == lines(told(healthy(), variables))  # type: ignore[union-attr]


def test_not_readable() -> None:
    """Root installed it with a umask of 077: Python finds nothing in it."""
    closed: dict[str, Content] = {f"{SITE}/te": unreadable(errno.EACCES)}
    asked = told({**healthy(), **closed}, NONE)
    assert (one(asked).code, one(asked).severity) == ("te-topi.not-readable", Severity.WARNING)
    assert one(asked).echo_of == ("cann-install.not-readable",)
    assert lines(asked) == (f"chmod -R go+rX {SITE}/te",)
    assert told({**healthy(), **closed}, sourced()).codes == [], "PYTHONPATH finds another first"
    assert told({**healthy(), f"{SITE}/te/version.py": unreadable(errno.EACCES)}, NONE).codes == asked.codes


def test_not_readable_by_the_user_of_the_job() -> None:
    status = "Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t\n"
    files = {**healthy(), **te("7.7.0.1.238"), "/proc/7/status": status, f"{SITE}/te": folder(0o700)}
    assert told(files, NONE, options=Options(env_of=7)).codes == ["te-topi.not-readable"]
    files[f"{SITE}/te"] = folder()
    assert told(files, NONE, options=Options(env_of=7)).codes == []


def test_another_build_and_a_copy_behind_are_noted() -> None:
    asked = told({**healthy(), **te("7.7.0.1.212")}, NONE)
    assert (one(asked).code, asked.status) == ("te-topi.other-build", Status.OK)
    asked = told({**healthy(), **te("7.5.0.1.129")}, sourced())
    assert (one(asked).code, asked.status) == ("te-topi.shadowed-copy", Status.OK)


def test_a_te_that_tells_no_version_is_not_judged() -> None:
    assert told({**healthy(), f"{SITE}/te/__init__.py": ""}, NONE).codes == []
    assert told({**healthy(), f"{SITE}/te/version.py": "import what\n"}, NONE).codes == []


def test_skipped() -> None:
    assert told({}, {}).status is Status.SKIPPED
    asked = told(healthy(), sourced(), packages={})
    assert asked.status is Status.SKIPPED
    assert "/usr/bin/python3" in asked.reason


def test_cannot_tell() -> None:
    asked = told({f"{LATEST}/opp/built-in/x": ""}, {"ASCEND_HOME_PATH": LATEST})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    closed = {**healthy(), f"{SITE}/te/version.py": unreadable(errno.EIO)}
    assert told(closed, NONE).status is Status.UNKNOWN


def test_in_an_image_the_line_enters_it() -> None:
    files = {f"/img{path}": text for path, text in {**healthy(), **WHEELS, **te("7.5.0.1.129")}.items()}
    files.update({f"/img{path}": text for path, text in package_files("torch-npu", "2.5.1").items()})
    asked = ask(te_topi, fake_host(files, root="/img"))
    assert lines(asked)[0].startswith("chroot /img /usr/bin/python3 -m pip install --no-index")


def _image(files: Mapping[str, Content]) -> Asked:
    more = package_files("torch-npu", "2.5.1")
    return ask(
        te_topi, fake_host({f"/img{path}": text for path, text in {**files, **more}.items()}, root="/img")
    )


def test_in_an_image_the_own_copy_counts() -> None:
    """What PYTHONPATH will be is not known there: CANN's script puts its own te on it."""
    asked = _image(healthy())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["te"] == [[f"{LATEST}/python/site-packages", "7.7.0.1.238"]]
    own = next(path for path in healthy() if path.endswith("/te/version.py"))
    old = _image({**healthy(), own: 'version = "7.5.0.1.129"\n'})
    assert old.codes == ["te-topi.other-version"]
    bare = {path: text for path, text in healthy().items() if "/python/" not in path}
    assert _image({**bare, **WHEELS}).codes == ["te-topi.missing"]
