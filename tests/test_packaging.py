"""What is in the tree is in the packages, and an installed wheel answers as the tree does."""

from __future__ import annotations

import functools
import gettext
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Callable

import polib
import pytest
from packaging.requirements import Requirement
from tests.support.packages import ROOT, Packages, build, copy, provide
from tests.support.pythons import with_pip

from npudoctor import __version__
from npudoctor.cli.companions.grammar import all_commands, command_tree
from npudoctor.cli.companions.share import MANUALS
from npudoctor.cli.companions.share import PLACES as COMPLETIONS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.once, pytest.mark.whole]

# Completion, and manual pages of npudoctor and of each command, in both languages.
PAGES = ["-".join(("npudoctor", *command.words)) + ".1" for command in all_commands(command_tree())]
SHARE = [
    *(f"share/{path}" for path in COMPLETIONS.values()),
    *(f"share/{folder}/{page}" for folder in MANUALS.values() for page in PAGES),
]
TABLES = ("explain/table.json", "cli/arguments/plain.json")
DATA = f"npudoctor-{__version__}.data/data"
SCRIPTS = f"npudoctor-{__version__}.data/scripts"
PLACES = {"src/npudoctor": "npudoctor", "checks": "npudoctor/checks"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """The sdist of a clean copy of the tree, and the wheel that is built from that sdist."""
    return provide(tmp_path_factory)


@pytest.fixture(scope="module")
def again(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Of a checkout by somebody with another umask, a year later, who built before a check was deleted; here
    the wheel is not built from the sdist."""
    base = tmp_path_factory.mktemp("packaging")
    tree, out = base / "somewhere" / "else", base / "out"
    copy(packages.tree, tree)
    stale = tree / "build" / "lib" / "npudoctor" / "checks" / "host" / "deleted.py"
    stale.parent.mkdir(parents=True)
    stale.write_text('"""A check that is gone."""\n')
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600)
        os.utime(path, (1731000000, 1731000000))
    umask = os.umask(0o077)
    try:
        build(tree, out, "--wheel", "--sdist")
    finally:
        os.umask(umask)
    return Packages(tree, out / packages.sdist.name, out / packages.wheel.name)


def expected(tree: Path) -> set[str]:
    """What a wheel of this tree must have besides metadata: every file, and what is made of them."""
    names = set()
    for folder, package in PLACES.items():
        for path in (tree / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                names.add(f"{package}/{path.relative_to(tree / folder).as_posix()}")
    catalogues = {name[: -len("po")] + "mo" for name in names if name.endswith(".po")}
    scripts = {f"{SCRIPTS}/{path.name}" for path in (tree / "start").iterdir()}
    made = {f"npudoctor/{table}" for table in TABLES} | {f"{DATA}/{path}" for path in SHARE}
    return names | catalogues | scripts | made


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def check_files() -> list[Path]:
    return [path for path in (ROOT / "checks").glob("*/*.py") if not path.name.startswith("_")]


def test_every_file_is_in_the_wheel(packages: Packages) -> None:
    assert names_in(packages.wheel) == expected(packages.tree)


@pytest.mark.slow
def test_a_second_build_elsewhere_is_the_same_bytes(packages: Packages, again: Packages) -> None:
    for first, second in zip(packages[1:], again[1:]):
        assert second.read_bytes() == first.read_bytes(), first.name


def test_a_deleted_file_is_not_in_the_next_wheel(again: Packages) -> None:
    assert names_in(again.wheel) == expected(again.tree)


def test_the_sdist_has_the_sources_the_tests_and_the_catalogues(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    wanted = {"pyproject.toml", "Makefile", "LICENSE", "README.md", ".ci/run"}
    for folder in ("src/npudoctor", "checks", "tests", "build_backend", "start", "tools"):
        for path in (packages.tree / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                wanted.add(path.relative_to(packages.tree).as_posix())
    wanted |= {name[: -len("po")] + "mo" for name in wanted if name.endswith(".po")}
    wanted |= {f"src/npudoctor/{table}" for table in TABLES} | set(SHARE)
    assert sorted(wanted - names) == []


def test_the_compiled_catalogues_say_what_the_sources_say(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(".mo")]
        assert compiled
        for name in compiled:
            source = polib.pofile(str(packages.tree / "src" / name[:-2]) + "po", encoding="utf-8")
            with archive.open(name) as stream:
                catalogue = gettext.GNUTranslations(stream)
            for entry in source.translated_entries():
                if not entry.msgid_plural:
                    assert catalogue.gettext(entry.msgid) == entry.msgstr


def test_the_table_of_explain_is_of_the_sources_in_the_wheel(packages: Packages, tmp_path: Path) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        archive.extractall(tmp_path)  # noqa: S202  (our own wheel)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from npudoctor.explain.signatures.prepared import prepare_table\n"
        "from npudoctor.knowledge.site import Knowledge\n"
        "print(len(prepare_table(Knowledge()).table.pieces) > 100)"
    )
    assert output(sys.executable, "-I", "-c", code, str(tmp_path), cwd=tmp_path) == "True\n"


def test_every_folder_is_a_listed_package() -> None:
    folders = set()
    for folder, package in PLACES.items():
        for path in (ROOT / folder).rglob("*.py"):
            inner = path.parent.relative_to(ROOT / folder).parts
            folders.add(".".join([*package.split("/"), *inner]))
            assert (path.parent / "__init__.py").is_file(), f"{path.parent} needs an __init__.py"
    assert sorted(folders) == sorted(project()["tool"]["setuptools"]["packages"])


def test_every_group_says_what_it_is_for() -> None:
    for folder in (ROOT / "checks").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert (folder / "__init__.py").read_text(encoding="utf-8").startswith('"""'), folder.name


def test_the_scripts_look_for_the_oldest_python_that_is_allowed() -> None:
    requires = project()["project"]["requires-python"]
    source = (ROOT / "tools" / "pythons.py").read_text(encoding="utf-8")
    assert f"OLDEST = ({requires[len('>=') :].replace('.', ', ')})" in source


def test_every_dependency_has_a_lower_bound() -> None:
    for requirement in map(Requirement, project()["project"]["dependencies"]):
        assert [s.operator for s in requirement.specifier if s.operator in (">=", "==")], requirement


def environment() -> dict[str, str]:
    """Ours, without what would lead an installed npudoctor back to this tree or change its answer."""
    lead_back = ("PYTHON", "NPUDOCTOR_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(lead_back)}
    return {**kept, "NPUDOCTOR_CHECKS_DIR": "", "LC_ALL": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def output(*command: str, cwd: Path) -> str:
    """What the command writes into a pipe, which is not unbuffered."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), (command, done.stderr)
    return done.stdout


@functools.cache
def of_the_tree(*arguments: str) -> str:
    """What npudoctor of this tree says."""
    return output(sys.executable, "-m", "npudoctor", *arguments, cwd=Path("/"))


def test_as_many_checks_are_found_as_there_are_files() -> None:
    listed = json.loads(of_the_tree("list", "--format", "json"))
    found = sorted(f"{check['group']}/{check['id'].replace('-', '_')}" for check in listed["checks"])
    assert found == sorted(
        path.relative_to(ROOT / "checks").with_suffix("").as_posix() for path in check_files()
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_the_installed_wheel_answers_as_the_tree_does(
    which: str, packages: Packages, tmp_path: Path, lack: Callable[[str], None]
) -> None:
    (interpreter, pip), venv = with_pip(which, lack), tmp_path / "a place"
    folder = venv / "bin"
    output(interpreter, "-m", "venv", "--without-pip", str(venv), cwd=tmp_path)
    install = [str(folder / "python"), pip, "install", "--quiet", "--no-compile", str(packages.wheel)]
    subprocess.run(install, cwd=tmp_path, env=environment(), check=True)
    assert [path for path in SHARE if not (venv / path).is_file()] == []
    for arguments in (["--version"], ["list", "--format", "json"], ["schema"]):
        installed = output(str(folder / "npudoctor"), *arguments, cwd=tmp_path)
        assert installed == of_the_tree(*arguments)
        assert installed


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--target", "--user"])
def test_the_command_starts_however_pip_installs_it(
    way: str, packages: Packages, tmp_path: Path, lack: Callable[[str], None]
) -> None:
    """Into an environment the test above installs it."""
    place = tmp_path / "a place"
    options = {"--target": ["--target", str(place)], "--user": ["--user"]}[way]
    pip = [*with_pip("newest", lack), "install", "--quiet", "--no-compile", *options]
    variables = {**environment(), "PYTHONUSERBASE": str(place), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    subprocess.run([*pip, str(packages.wheel)], cwd=tmp_path, env=variables, check=True)
    command = str(place / "bin" / "npudoctor")
    assert output(command, "--version", cwd=tmp_path) == f"npudoctor {__version__}\n"
    listed = output(command, "list", "--format", "json", cwd=tmp_path)
    assert listed == of_the_tree("list", "--format", "json")
