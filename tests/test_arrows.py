"""The arrows of the design, read from the imports; and what a check must not touch by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/npudoctor"
CHECKS = sorted((ROOT / "checks").rglob("*.py"))

# What each part may import of ours; a part is the folder or the module below npudoctor.
CORE = {"model", "messages", "frozen", "descriptors", "lazy", "threads"}
ALLOWED = {
    "model": {"frozen"},
    "frozen": set(),
    "lazy": set(),
    "threads": set(),
    "messages": set(),
    "descriptors": set(),
    "redact": {"redact"},
    # Who mounted what, the table of mounts says.
    "trust": {"messages", "host"},
    "keys": CORE,
    # What runs in the job's own interpreter can import nothing of ours.
    "probes": set(),
    "host": CORE | {"host", "knowledge"},
    "knowledge": CORE | {"knowledge", "host", "trust"},
    "checking": CORE | {"host"},
    "proof": CORE | {"host", "proof", "fixing", "knowledge", "checking"},
    "stamping": CORE | {"checking", "redact"},
    "verdict": CORE,
    "reporting": CORE | {"host", "verdict"},
    "patience": set(),
    "description": CORE | {"host", "patience", "reporting"},
    "child": CORE | {"checking", "patience"},
    "needs": CORE | {"host"},
    "index": CORE | {"checking", "host"},
    "asking": CORE | {"checking", "host", "needs", "stamping"},
    "foreign": CORE | {"checking", "child", "host", "fixing", "needs"},
    "dropins": CORE | {"checking", "host", "trust", "foreign", "child", "registry"},
    "registry": CORE | {"checking", "host", "dropins", "entrypoints", "index", "plugins"},
    "entrypoints": CORE | {"host", "trust"},
    "plugins": CORE | {"checking", "host", "dropins", "foreign", "entrypoints", "registry", "trust"},
    "runner": CORE
    | {
        "asking",
        "checking",
        "description",
        "host",
        "patience",
        "redact",
        "registry",
        "reporting",
        "stamping",
        "verdict",
    },
    "environment": CORE | {"environment", "fixing", "host", "index", "registry", "runner"},
    "render": CORE | {"render", "checking", "registry", "fixing", "knowledge", "explain", "redact"},
    "explain": CORE | {"checking", "explain", "host", "knowledge", "redact"},
    "fixing": CORE | {"fixing", "host", "proof", "checking", "redact", "verdict"},
    "running": CORE | {"host", "running"},
    "config": CORE | {"host", "keys"},
}
PUBLIC = {"host", "knowledge", "proof", "frozen", "lazy", "checks"}
# The one helper for pip's lines; whose a process is; whether somebody holds a lock.
LENT = (
    "npudoctor.checks.python._pip.",
    # What whoever starts a container must add: said wherever some of it is missing.
    "npudoctor.checks.device._container_options.",
    "npudoctor.checks.device._npu_owners.",
    # Who may open a device node, of either kind.
    "npudoctor.checks.device._node_access.",
    "npudoctor.checks.cann._caches.",
    # What CANN needs of Python: frameworks need some of it, too.
    "npudoctor.checks.cann._python_needs.",
)
FORBIDDEN_MODULES = {"subprocess", "socket", "psutil", "ctypes", "multiprocessing", "shutil", "io"}
FORBIDDEN_NAMES = {"print", "open", "exec", "eval", "input", "exit", "quit", "__import__"}
FORBIDDEN_OF = {
    "os": set(
        "environ getenv putenv system popen open kill killpg remove unlink listdir stat lstat walk"
        " scandir fork _exit chdir readlink rename rmdir access".split()
    ),
    "sys": {"exit", "stdout", "stderr", "stdin", "argv"},
}


def imports(path: Path) -> Iterator[str]:
    """The absolute names of all modules that a file imports, at any depth but only for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: we import absolutely"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def part_of(name: str) -> str:
    """`host` for npudoctor.host.options; empty for a name of the package itself, as npudoctor.Finding."""
    below = [*name.split("."), ""][1]
    known = below and ((SOURCE / below).is_dir() or (SOURCE / f"{below}.py").exists() or below == "checks")
    return below if known else ""


def ours(path: Path) -> set[str]:
    """The parts of npudoctor that a file imports."""
    names = {name for name in imports(path) if name.split(".")[0] == "npudoctor"}
    return {part_of(name) for name in names} - {""}


@pytest.mark.parametrize("part", ALLOWED)
def test_each_part_imports_only_what_lies_below_it(part: str) -> None:
    folder = SOURCE / part
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{part}.py"]:
        assert ours(path) <= ALLOWED[part] | {part}, path


def test_every_part_has_its_arrows() -> None:
    parts = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"__init__", "__main__", "testing", "cli"} == set(ALLOWED)


def test_every_part_is_described() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    for part in ALLOWED:
        assert f"`{part}`" in rows or f"`{part}/`" in rows, part


def test_only_the_command_line_knows_the_command_line() -> None:
    for path in SOURCE.rglob("*.py"):
        if "cli" not in path.parts and path.name != "__main__.py":
            assert "cli" not in ours(path), path


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_check_asks_the_host_only(path: Path) -> None:
    assert ours(path) <= PUBLIC, path
    for name in imports(path):
        assert name.split(".")[0] not in FORBIDDEN_MODULES, name
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            assert node.id not in FORBIDDEN_NAMES, f"{path}:{node.lineno}: {node.id}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.attr not in FORBIDDEN_OF.get(node.value.id, ()), f"{path}:{node.lineno}: {node.attr}"


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_check_hides_none_of_it_behind_another_name(path: Path) -> None:
    for name in imports(path):
        module, _dot, member = name.rpartition(".")
        assert member not in FORBIDDEN_OF.get(module, ()), name


@pytest.mark.parametrize("path", sorted((ROOT / "checks").glob("*/*.py")), ids=lambda path: path.stem)
def test_what_is_private_to_a_group_stays_in_it(path: Path) -> None:
    """What two groups need is the host's, or knowledge."""
    own = f"npudoctor.checks.{path.parent.name}."
    private = [name for name in imports(path) if name.startswith("npudoctor.checks.") and "._" in name]
    assert [name for name in private if not name.startswith((own, *LENT))] == []


def test_the_walk_sees_what_it_should(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "def f():\n    from npudoctor.cli import main\n    import npudoctor.runner.runner, socket\n"
    )
    assert ours(bad) == {"cli", "runner"} and "socket" in set(imports(bad))
    bad.write_text("from npudoctor import Finding, _, runner\n")
    assert ours(bad) == {"runner"}
