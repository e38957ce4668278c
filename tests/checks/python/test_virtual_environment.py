"""virtual-environment: its Python is there, and of the release that its packages were installed for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.virtual_environment import virtual_environment
from npudoctor.testing import Asked, Content, Node, ask, fake_host, link, unreadable

VENV = "/home/ann/venv"
CFG = "home = /opt/python3.11/bin\nversion = 3.11.7\n"
WELL: dict[str, Content] = {
    f"{VENV}/pyvenv.cfg": CFG,
    f"{VENV}/bin/python3": link("/opt/python3.11/bin/python3"),
    "/opt/python3.11/bin/python3": Node(b"ELF", permissions=0o755),
    f"{VENV}/lib/python3.11/site-packages/torch/__init__.py": "",
    f"{VENV}/lib/python3.11/site-packages/numpy/__init__.py": "",
}


LAUNCHER = f"{VENV}/bin/torchrun"
LOST: dict[str, Content] = {**WELL, f"{VENV}/bin/activate": ""}
del LOST[f"{VENV}/pyvenv.cfg"]
GONE = {path: content for path, content in WELL.items() if not path.startswith("/opt")}


def told(
    files: dict[str, Content], version: str = "3.11.7", python: str = f"{VENV}/bin/python3", **more: str
) -> Asked:
    return ask(virtual_environment, fake_host(files, python=python, python_version=version, variables=more))


def test_quiet_when_well() -> None:
    asked = told(WELL)
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_skipped_where_none_is_in_use() -> None:
    assert told({}, python="/usr/bin/python3").status is Status.SKIPPED


def test_the_base_is_gone() -> None:
    (finding,) = told(GONE).findings
    assert (finding.code, finding.severity) == ("virtual-environment.base-missing", Severity.ERROR)
    assert f"{VENV}/bin/python3 is a dangling link" in finding.message
    assert finding.evidence == (
        f"{VENV}/pyvenv.cfg: home = /opt/python3.11/bin",
        f"{VENV}/pyvenv.cfg: version = 3.11.7",
    )


def test_the_active_environment_whose_base_is_gone_while_another_python_answers() -> None:
    by_name = told(GONE, python="/usr/bin/python3", VIRTUAL_ENV=VENV)
    by_path = told(GONE, python="/usr/bin/python3", PATH=f"{VENV}/bin:/usr/bin")
    assert by_name.codes == by_path.codes == ["virtual-environment.base-missing"]


def test_behind_the_examined_python_nobody_looks() -> None:
    assert told(GONE, python="/usr/bin/python3", PATH=f"/usr/bin:{VENV}/bin").status is Status.SKIPPED


def test_the_base_is_another_release_now() -> None:
    (finding,) = told(WELL, "3.12.1").findings
    assert (finding.code, finding.severity) == ("virtual-environment.other-python", Severity.ERROR)
    assert "is Python 3.12.1 now" in finding.message and f"{VENV}/lib/python3.11" in finding.message
    assert finding.fix is not None
    listed, made, filled = finding.fix.commands
    assert "pip list --not-required" in listed and f"{VENV}/lib/python3.11/site-packages" in listed
    assert made == f"/opt/python3.11/bin/python3 -m venv {VENV}-new"
    assert filled == f"{VENV}-new/bin/python3 -m pip install -r {VENV}.packages.txt"


def test_a_shim_is_no_python_to_point_an_environment_at() -> None:
    shims = "/home/ann/.pyenv/shims"
    for text, kept in (("#!/usr/bin/env bash\nexec pyenv exec python3.11\n", True), ("\x7fELF", False)):
        files = {**WELL, f"{shims}/python3.11": text}
        (finding,) = told(files, "3.12.1", PATH=f"{VENV}/bin:{shims}:/usr/bin").findings
        assert finding.fix is not None
        assert any(f"venv {VENV}-new" in line for line in finding.fix.commands) is kept
        assert any(shims in line for line in finding.fix.commands) is not kept


@pytest.mark.parametrize("files", [WELL, GONE])
def test_no_remedy_deletes_packages(files: dict[str, Content]) -> None:
    for finding in told(files, "3.12.1").findings:
        assert finding.fix is not None
        assert not [
            one for one in finding.fix.commands if "--clear" in one or one.startswith(("mv", "rm -r"))
        ]


def test_packages_for_both_releases_are_well() -> None:
    site = f"{VENV}/lib/python3.12/site-packages"
    assert told({**WELL, f"{site}/a.py": "", f"{site}/b.py": ""}, "3.12.1").codes == []


def test_an_environment_that_cannot_be_looked_into() -> None:
    assert told({f"{VENV}/bin": unreadable(), f"{VENV}/pyvenv.cfg": CFG}).status is Status.UNKNOWN


def test_the_settings_are_lost() -> None:
    (finding,) = told(LOST).findings
    assert (finding.code, finding.severity) == ("virtual-environment.settings-missing", Severity.ERROR)
    assert (
        f"{VENV}/pyvenv.cfg is missing: its Python now acts as /opt/python3.11/bin/python3" in finding.message
    )
    assert finding.fix is not None
    assert finding.fix.commands == (f"/opt/python3.11/bin/python3 -m venv --without-pip {VENV}",)


def test_an_installation_of_its_own_has_no_settings_to_lose() -> None:
    """A conda environment, and one whose standard library lies beside its packages."""
    own = {
        **LOST,
        f"{VENV}/bin/python3": link("python3.11"),
        f"{VENV}/bin/python3.11": Node(permissions=0o755),
    }
    beside = {**LOST, f"{VENV}/lib/python3.11/os.py": ""}
    without = {path: content for path, content in LOST.items() if "site-packages" not in path}
    assert [told(files).status for files in (own, beside, without)] == [Status.SKIPPED] * 3


def test_a_python_that_nobody_may_execute() -> None:
    (finding,) = told({**WELL, "/opt/python3.11/bin/python3": "ELF"}).findings
    assert (finding.code, finding.severity) == ("virtual-environment.not-executable", Severity.ERROR)
    assert finding.fix is not None and finding.fix.commands == ("chmod a+x /opt/python3.11/bin/python3",)


@pytest.mark.parametrize(
    "text",
    [
        "#!/old/bin/python3\n",
        "#! /old/bin/python3 -I\n",
        '#!/bin/sh\n\'\'\'exec\' "/old/bin/python3" "$0" "$@"\n',
    ],
)
def test_a_launcher_of_a_python_that_is_gone(text: str) -> None:
    (finding,) = told({**WELL, LAUNCHER: text, "/bin/sh": ""}).findings
    assert (finding.code, finding.severity) == (
        "virtual-environment.launcher-without-python", Severity.WARNING,
    )  # fmt: skip
    assert "names /old/bin/python3, which is gone" in finding.message


@pytest.mark.parametrize("text", [f"#!{VENV}/bin/python3\n", "#!/usr/bin/env python3\n", "\x7fELF", ""])
def test_a_launcher_that_starts(text: str) -> None:
    assert told({**WELL, LAUNCHER: text, "/usr/bin/env": ""}).codes == []


def test_a_launcher_that_cannot_be_read() -> None:
    assert told({**WELL, LAUNCHER: unreadable()}).status is Status.OK


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and no environment."""
    yield told_of_link(LINKED)
    yield ask(virtual_environment, fake_host())
    yield told(GONE)
    yield told(WELL, "3.12.1")
    yield told(LOST)
    yield told({**WELL, "/opt/python3.11/bin/python3": "ELF"})
    yield told({**WELL, LAUNCHER: "#!/old/bin/python3\n"})


LINK, OUTSIDE = "/usr/local/bin/python-train", "/opt/python3.11/bin/python3"
LINKED: dict[str, Content] = {
    **WELL,
    f"{VENV}/lib/python3.11/site-packages/torch-2.7.1.dist-info/METADATA": "Name: torch\nVersion: 2.7.1\n",
    LINK: link(f"{VENV}/bin/python3"),
}


def told_of_link(files: dict[str, Content], python: str = LINK, *, path: tuple[str, ...] = ()) -> Asked:
    host = fake_host(files, python=python, python_version="3.11.7", search_path=path)
    return ask(virtual_environment, host)


def test_a_link_from_elsewhere_to_the_python_of_an_environment() -> None:
    (finding,) = told_of_link(LINKED).findings
    assert (finding.code, finding.severity) == (
        "virtual-environment.linked-from-outside", Severity.ERROR,
    )  # fmt: skip
    assert f"{LINK} is a link to {VENV}/bin/python3" in finding.message and "torch 2.7.1" in finding.message
    assert finding.fix is not None and finding.fix.commands[0].endswith(f"{LINK} {VENV}/bin/python3")


def test_a_link_to_the_folder_of_programs_and_one_link_more() -> None:
    by_folder = {**LINKED, "/opt/bin-train": link(f"{VENV}/bin")}
    assert told_of_link(by_folder, "/opt/bin-train/python3").codes == [
        "virtual-environment.linked-from-outside"
    ]
    twice = {**LINKED, "/usr/bin/python-team": link(LINK)}
    assert told_of_link(twice, "/usr/bin/python-team").codes == ["virtual-environment.linked-from-outside"]


def test_links_that_lose_nothing() -> None:
    """To all of an environment; to a Python without settings; where this Python has the same frameworks."""
    whole = {**LINKED, "/opt/current": link(VENV)}
    assert told_of_link(whole, "/opt/current/bin/python3").codes == []
    assert told_of_link({**LINKED, LINK: link(OUTSIDE)}).status is Status.SKIPPED
    site = f"{VENV}/lib/python3.11/site-packages"
    assert told_of_link(LINKED, path=(site,)).status is Status.SKIPPED
    bare = {path: content for path, content in LINKED.items() if "torch" not in path}
    assert told_of_link(bare).status is Status.SKIPPED


def test_a_link_whose_environment_is_closed() -> None:
    assert told_of_link({**LINKED, VENV: unreadable()}).status is Status.UNKNOWN


def test_the_script_in_the_place_of_the_link_starts_the_environment(tmp_path: Path) -> None:
    """The remedy is typed: what it leaves is run, and Python finds the environment."""
    import subprocess
    import sys

    from npudoctor.checks.python.virtual_environment import _SCRIPT

    folder, path = tmp_path / "venv", tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    path.symlink_to(folder / "bin/python")
    question = [str(path), "-c", "import sys; print(sys.prefix)"]
    assert subprocess.run(question, capture_output=True, text=True, check=True).stdout != f"{folder}\n"
    subprocess.run(["sh", "-c", _SCRIPT, str(path), str(folder / "bin/python")], check=True)
    assert subprocess.run(question, capture_output=True, text=True, check=True).stdout == f"{folder}\n"
