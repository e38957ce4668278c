"""Plug-ins: checks that installed distributions bring along; a broken one is a row and harms nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

from npudoctor.registry.entrypoints import find_entry_points, parse_entry_points

from .command import Done, Npudoctor

SOURCE = '''
from npudoctor import *

@check({id!r}, scope=Scope.NODE, codes={{"{id}.bad": ERROR}})
def question(host):
    """A title.

    A manual.
    """
    {body}
'''
FOUND = 'yield Finding("site-disk.bad", "found")'


class Site:
    """A folder of installed distributions, beside npudoctor's own."""

    def __init__(self, npudoctor: Npudoctor) -> None:
        self.npudoctor = npudoctor
        self.folder = npudoctor.folder / "site-packages"
        self.folder.mkdir(mode=0o755)

    def add(self, point: str, module: str, source: str = "", dist: str = "acme") -> Path:
        """One distribution with one entry point; its module, unless there is to be none."""
        info = self.folder / f"{dist}-1.0.dist-info"
        info.mkdir()
        file = info / "entry_points.txt"
        file.write_text(f"[console_scripts]\nx = y:z\n\n[npudoctor.checks]\n{point} = {module}\n")
        file.chmod(0o644)
        if source:
            (self.folder / f"{module}.py").write_text(source)
        return file

    def __call__(self, *arguments: str) -> Done:
        return self.npudoctor(*arguments, PYTHONPATH=str(self.folder))

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of all plug-ins, by their names."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self("check", "plug-in", "--format", "json").json["results"]:
            assert row["group"] == "plug-in", row
            rows.setdefault(row["check"], []).append(row)
        return rows

    def row(self, name: str) -> dict[str, Any]:
        """The row of a plug-in."""
        row = self("check", "plug-in", "--format", "json").row(name)
        assert row["group"] == "plug-in", row
        return row


@pytest.fixture
def site(npudoctor: Npudoctor) -> Site:
    return Site(npudoctor)


def test_a_plug_in_is_a_check_like_others(site: Site) -> None:
    site.add("site-disk", "acme_disk", SOURCE.format(id="site-disk", body=FOUND))
    done = site("check", "site-disk", "--format", "json")
    assert (done.status, done.err) == (1, "")
    row = done.row("site-disk")
    assert (row["status"], row["group"], row["title"]) == ("problem", "plug-in", "A title")
    assert row["findings"][0]["code"] == "site-disk.bad"
    assert site("check", "site-disk", "--ignore", "site-disk.bad").status == 0
    assert "A manual." in site("show", "site-disk").out
    (listed,) = [one for one in site("list", "--format", "json").json["checks"] if one["id"] == "site-disk"]
    assert listed["origin"] == "plug-in"


def test_a_broken_one_is_a_row(site: Site) -> None:
    wanted = {}
    for number, (point, source, said) in enumerate(
        [
            ("no_such_module", "", "ModuleNotFoundError: No module named 'no_such_module'"),
            ("acme_0:question", "", "acme_0:question is not the name of a module"),
            ("acme_2", "import os\nos._exit(0)\n", "its process ended during loading"),
            ("acme_3", "1 / 0\n", "ZeroDivisionError"),
            ("acme_4", "x = 1\n", "holds one check, this one holds 0"),
            ("acme_5", SOURCE.format(id="other", body="yield"), "'other' is not the file's name"),
        ]
    ):
        file = site.add(f"broken-{number}", point, source, dist=f"acme{number}")
        wanted[f"broken-{number}"] = (str(file), said)
    rows = site.rows()
    assert set(rows) == set(wanted)
    for name, (path, said) in wanted.items():
        (row,) = rows[name]
        assert (row["status"], row["needed"]) == ("broken", True), name
        assert said in row["reason"] and path in row["reason"], row


def test_a_name_that_is_none_is_no_rows_id(site: Site) -> None:
    names = ["", "Bad Name!", "5", "a--b", "-a", "Cache-Server", "ünder"]
    files = [
        site.add(name, f"acme_{number}", SOURCE.format(id="site-disk", body=FOUND), dist=f"acme{number}")
        for number, name in enumerate(names)
    ]
    rows = site.rows()
    assert set(rows) == {"unnamed-plug-in"}
    assert {row["status"] for row in rows["unnamed-plug-in"]} == {"broken"}
    said = sorted(row["reason"] for row in rows["unnamed-plug-in"])
    wanted = sorted(f"{file}: {name!r} is not the name of a check" for file, name in zip(files, names))
    assert len(said) == len(wanted) and all(map(str.startswith, said, wanted)), said


def test_a_need_that_would_silence_it_for_ever_breaks_it(site: Site) -> None:
    for number, needs in enumerate(["'cann'", "('canm',)", "('HOME',)", "(5,)"]):
        source = SOURCE.format(id=f"site-{number}x", body=FOUND)
        source = source.replace("codes=", f"needs={needs}, codes=")
        site.add(f"site-{number}x", f"acme_{number}", source, dist=f"acme{number}")
    rows = site.rows()
    assert len(rows) == 4
    for (row,) in rows.values():
        assert row["status"] == "broken" and "need" in row["reason"], row


def test_one_that_needs_what_is_not_here_is_skipped(site: Site) -> None:
    source = SOURCE.format(id="site-disk", body=FOUND)
    site.add("site-disk", "acme_disk", source.replace("codes=", "needs=('$NO_SUCH',), codes="))
    assert site.row("site-disk")["status"] == "skipped"


def test_one_that_dies_harms_nobody(site: Site) -> None:
    body = "import os, sys; print('noise'); os.kill(os.getpid(), 9); yield"
    site.add("site-disk", "acme_disk", SOURCE.format(id="site-disk", body=body))
    done = site("check", "site-disk", "accelerator", "--expect", "none", "--format", "json")
    assert done.row("site-disk")["status"] == "crashed"
    assert done.row("accelerator")["status"] == "ok"


def test_a_name_that_is_taken_replaces_nothing(site: Site) -> None:
    files = {
        name: site.add(name, f"acme_{number}", SOURCE.format(id=name, body=FOUND), dist=f"acme{number}")
        for number, name in enumerate(["cache-server", "leftovers", "plug-in", "drop-in"])
    }
    rows = site.rows()
    assert set(rows) == set(files)
    for name, file in files.items():
        assert [row["reason"] for row in rows[name]] == [f"{file}: the name {name} is already taken"]


def test_what_others_may_write_is_not_imported(site: Site) -> None:
    file = site.add("site-disk", "acme_disk", "open('ran', 'w')\n")
    file.chmod(0o666)
    assert site.row("site-disk")["reason"] == f"{file} is writable by other users"
    assert not (site.npudoctor.folder / "ran").exists()


@pytest.mark.parametrize("which", ["module", "package", "init", "inner", "compiled", "cache"])
def test_a_module_that_others_may_write_is_not_imported(site: Site, which: str) -> None:
    source = SOURCE.format(id="site-disk", body=FOUND)
    site.add("site-disk", "acme.disk")
    package = site.folder / "acme"
    cache = package / "__pycache__"
    cache.mkdir(parents=True, mode=0o755)
    for path, text in ((package / "__init__.py", "open('ran', 'w')\n"), (package / "disk.py", source)):
        path.write_text(text)
        path.chmod(0o644)
    compiled = cache / f"disk.{sys.implementation.cache_tag}.pyc"
    if which == "compiled":
        compiled.write_bytes(b"")
    paths = {"module": package / "disk.py", "package": package, "init": package / "__init__.py"}
    path = {**paths, "inner": site.folder, "compiled": compiled, "cache": cache}[which]
    path.chmod(path.stat().st_mode | 0o022)
    assert site.row("site-disk")["reason"] == f"{path} is writable by other users"
    assert not (site.npudoctor.folder / "ran").exists()
    path.chmod(path.stat().st_mode & ~0o022)
    compiled.unlink(missing_ok=True)
    if which in ("module", "compiled"):  # nothing else hindered it, and all lie in the same place
        assert site.row("site-disk")["status"] == "problem"


def test_a_module_behind_a_link_of_others_is_judged_there(site: Site, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(SOURCE.format(id="site-disk", body=FOUND))
    elsewhere.chmod(0o666)
    site.add("site-disk", "acme_disk")
    (site.folder / "acme_disk.py").symlink_to(elsewhere)
    assert site.row("site-disk")["reason"] == f"{elsewhere} is writable by other users"


def test_only_lines_of_our_group_count() -> None:
    text = "a = b\n[npudoctor.checks.more]\nc = d\n[npudoctor.checks]\n# x = y\n e = f.g  # why\nnothing\n"
    text += "[z]\nh = i\n"
    assert parse_entry_points(text) == [("e", "f.g")]


def test_only_install_folders_are_looked_at(tmp_path: Path) -> None:
    for folder in ("site-packages", "src"):
        info = tmp_path / folder / "acme-1.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text("[npudoctor.checks]\na = b\n")
    path = [str(tmp_path), "", "/no/site-packages", f"{tmp_path}/src", f"{tmp_path}/site-packages/"]
    assert list(find_entry_points([*path, *path])) == [("a", "b")]


@pytest.mark.slow
def test_one_that_pip_installed(site: Site, tmp_path: Path, lack: Callable[[str], None]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "acme_disk.py").write_text(SOURCE.format(id="site-disk", body=FOUND))
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "acme"\nversion = "1.0"\n[tool.setuptools]\npy-modules = ["acme_disk"]\n'
        '[project.entry-points."npudoctor.checks"]\nsite-disk = "acme_disk"\n'
    )
    line = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*line, "--target", str(site.folder), str(project)], capture_output=True, timeout=240, check=False
    )
    if done.returncode:
        lack("pip cannot build a wheel here")
    assert site.row("site-disk")["status"] == "problem"
