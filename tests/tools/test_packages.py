"""What packages carry: pinned by hashes, for both machines, in a bill of materials."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support import one_file
from tests.support.packages import MOMENT, ROOT, provide
from tests.support.pythons import with_pip

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MACHINES = ("x86_64", "aarch64")


@pytest.fixture(scope="module")
def carried() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("carried")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provide(tmp_path_factory).wheel


def versions(pins: list[str]) -> dict[str, str]:
    return dict(line.split(" ")[0].split("==") for line in pins)


@pytest.mark.parametrize("python", ["3.9", "3.10", "3.13"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_pin_has_hashes_and_suits_what_the_project_requires(
    carried: ModuleType, python: str, machine: str
) -> None:
    """Fails where pyproject.toml was changed and `make locked` forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        line
        for name in ("fast", "fleet", "gpu", "secrets")
        for line in project["optional-dependencies"][name]
    ]
    pins = carried.pins("wheelhouse", python, machine)
    assert all(line.count("--hash=sha256:") >= 1 for line in pins)
    for wanted in map(Requirement, [*project["dependencies"], *extras]):
        if wanted.marker is None or wanted.marker.evaluate({"python_version": python}):
            assert wanted.specifier.contains(versions(pins)[canonicalize_name(wanted.name)]), wanted


def test_a_pin_of_another_python_or_system_is_left_out(carried: ModuleType) -> None:
    assert "tomli" in versions(carried.pins("one-file", "3.9", "aarch64"))
    newer = versions(carried.pins("one-file", "3.13", "aarch64"))
    assert "tomli" not in newer and "colorama" not in newer and "distro" in newer


def test_another_file_than_the_pinned_one_is_not_carried(
    carried: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked/x.txt").write_text(f"distro==1.9.0 \\\n    --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(carried, "LOCKED", tmp_path / "locked")
    with pytest.raises(subprocess.CalledProcessError):
        carried.download("x", "3.9", "x86_64", tmp_path / "out")
    assert list((tmp_path / "out").glob("*.whl")) == []


def run(*words: Any, **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        **{"env": MOMENT, **options},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_one_file_twice_is_one_and_its_bill_names_what_is_in_it(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, its_bill = one_file.packed(tmp_path_factory)
    one_file.pack(wheel, tmp_path / "second", tmp_path / "second.json")
    assert first.read_bytes() == (tmp_path / "second").read_bytes()
    assert its_bill.read_bytes() == (tmp_path / "second.json").read_bytes()
    bill = json.loads(its_bill.read_text())
    valid(its_bill)
    with zipfile.ZipFile(first) as archive:
        heads = {name for name in archive.namelist() if name.endswith(".dist-info/METADATA")}
    rows = [bill["metadata"]["component"], *bill["components"]]
    inside = {tuple(name.split("/")[1][: -len(".dist-info")].lower().rsplit("-", 1)) for name in heads}
    assert {(row["name"].replace("-", "_"), row["version"]) for row in rows} == inside
    assert rows[0]["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


def valid(bill: Path) -> None:
    """By the schema of CycloneDX itself; in a process that knows IRIs too (tests/conftest.py)."""
    ask = (
        "import pathlib, sys; from cyclonedx.schema import SchemaVersion;"
        "from cyclonedx.validation.json import JsonStrictValidator;"
        "text = pathlib.Path(sys.argv[1]).read_text(encoding='utf-8');"
        "sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text))"
    )
    run(sys.executable, "-c", ask, bill)


@pytest.fixture(scope="module")
def wheelhouse(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the tar holds."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    run(sys.executable, ROOT / "tools/wheelhouse.py", wheel, folder / "npudoctor-wheelhouse.tar")
    with tarfile.open(folder / "npudoctor-wheelhouse.tar") as archive:
        archive.extractall(folder)  # noqa: S202  (our own)
    return folder / "npudoctor-wheelhouse"


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_what_a_wheel_of_the_wheelhouse_requires_is_in_it(
    carried: ModuleType, wheelhouse: Path, python: str, machine: str
) -> None:
    inside = versions(carried.pins("wheelhouse", python, machine))
    about = carried.environment(python, machine)
    bill = importlib.import_module("sbom")
    for path in wheelhouse.glob("*.whl"):
        head = bill.metadata(path)
        if inside.get(canonicalize_name(head["Name"])) != head["Version"]:
            continue
        for wanted in map(Requirement, head.get_all("Requires-Dist", [])):
            if wanted.marker is None or wanted.marker.evaluate(about):
                assert wanted.specifier.contains(inside[canonicalize_name(wanted.name)]), (path.name, wanted)


@pytest.mark.slow
def test_the_wheelhouse_has_the_sums_and_the_bill_of_its_wheels(wheelhouse: Path) -> None:
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=wheelhouse)
    valid(wheelhouse / "sbom.cdx.json")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_pip_installs_from_the_wheelhouse_alone(
    wheelhouse: Path, which: str, tmp_path: Path, lack: Callable[[str], None]
) -> None:
    (interpreter, pip), inside = with_pip(which, lack), tmp_path / "venv/bin/python"
    run(interpreter, "-m", "venv", "--without-pip", tmp_path / "venv")
    install = (inside, pip, "install", "--quiet", "--no-compile", "--no-index")
    alone = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull}
    run(*install, "--find-links", wheelhouse, "npudoctor[fast,fleet,gpu,secrets]", env=alone)
    assert run(tmp_path / "venv/bin/npudoctor", "--version").startswith("npudoctor ")
    run(inside, "-c", "import hyperscan, ClusterShell, detect_secrets, pynvml")
