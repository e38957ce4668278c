"""What an extra brings is imported in one place; where it is missing, that is one line with what to type."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from npudoctor.core import optional

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "src/npudoctor/core/optional.py"
# Scripts of the job's own interpreter, which import nothing of ours.
PROBES = ROOT / "src/npudoctor/probes"
SOURCES = [
    path
    for folder in ("src/npudoctor", "checks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != HOME and PROBES not in path.parents
]


def begins(node: ast.expr) -> str:
    """How a text in the source begins, "" for what is none."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def imports(text: str) -> Iterator[str]:
    """All modules that a source imports, by a statement or by a function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "__import__", "find_spec"):
                yield begins(node.args[0])


def optional_in(text: str) -> list[str]:
    if not any(name in text for name in optional.EXTRAS):
        return []
    return [name for name in imports(text) if name.partition(".")[0] in optional.EXTRAS]


def test_the_rule_sees_every_way_to_import() -> None:
    text = 'import yaml\nfrom ClusterShell import NodeSet\nimport_module("hyperscan")\n'
    assert optional_in(text + 'il.import_module(f"detect_secrets.plugins.{x}")\nimport json') == [
        "yaml", "ClusterShell", "hyperscan", "detect_secrets.plugins."
    ]  # fmt: skip


def test_only_one_module_imports_what_an_extra_brings() -> None:
    assert len(SOURCES) > 300
    assert {str(path): names for path in SOURCES if (names := optional_in(path.read_text("utf-8")))} == {}


def test_every_extra_that_users_install_has_its_packages_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        (optional._NAMES.get(package, package).lower(), extra) for package, extra in optional.EXTRAS.items()
    }
    for extra, lines in project["optional-dependencies"].items():
        if extra not in ("test", "dev", "package"):
            assert {(Requirement(line).name.lower(), extra) for line in lines} <= extras


@pytest.mark.parametrize(("package", "extra"), optional.EXTRAS.items())
def test_a_missing_package_is_one_line_for_this_very_python(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(optional.MissingExtra) as raised:
        optional.load(f"{package}.part")
    line = str(raised.value)
    assert f"{sys.executable} -m pip install 'npudoctor[{extra}]'" in line and "\n" not in line
    assert ("npudoctor.pyz includes it" in line) == (extra == "fleet")


def test_a_package_that_is_damaged_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yaml.py").write_text("import _yaml_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "yaml", raising=False)
    with pytest.raises(optional.MissingExtra) as raised:
        optional.load("yaml")
    line = str(raised.value)
    assert "No module named '_yaml_that_is_not_there'" in line and "install --force-reinstall" in line
