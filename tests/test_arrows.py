"""The arrows of the design, read from the imports; and what a check must not touch by itself."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/npudoctor"
CHECKS = sorted((ROOT / "checks").rglob("*.py"))

# Each part may import what stands in a row above its own, and nothing else of ours.
ORDER = (
    ("core",),
    ("knowledge",),
    ("trial",),
    ("host",),
    ("facts", "firewall"),
    ("proof",),
    ("checking", "fixing"),
    ("registry",),
    ("runner",),
    ("environment", "explain", "launch"),
    ("fleet", "rehearsal"),
    ("render",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
# The rooms of a floor: each may import those before it. Loose modules beside them have no place in the order;
# but what a room imports by way of one counts.
ROOMS = {
    "cli": ("terminal", "arguments", "fleet", "companions"),
    "core": ("trust", "redact"),
    "explain": ("signatures", "scanning", "reading", "ranking"),
    "facts": ("system", "job", "npu", "gpu", "python", "cann", "hccl", "rank_table", "leftovers", "snapshot"),
    "fixing": ("steps", "actions"),
    "host": ("fs", "users", "libraries", "startup", "process", "network", "python", "devices"),
}
# What runs in the job's own interpreter can import nothing of ours; a fake host is a host, and is asked.
ASIDE = {"probes": set[str](), "testing": {"core", "knowledge", "trial", "host", "checking"}}
# What a check may import of the core besides the public names: values in the host's answers.
CORE_FOR_CHECKS = {
    *("addresses", "cann_version", "driver_version", "errors", "frozen", "lazy", "marks", "mounts", "ports"),
    "sizes",
}
PUBLIC = {"core", "knowledge", "trial", "host", "facts", "firewall", "proof", "checks"}
# The one helper for pip's lines.
LENT = (
    "npudoctor.checks.python._pip.",
    # What whoever starts a container must add: said wherever some of it is missing.
    "npudoctor.checks.device._container_options.",
    # Who holds a device, and who may open its node, of either kind.
    "npudoctor.checks.device._busy_findings",
    "npudoctor.checks.device._node_access.",
    # What a Python's build lacked, and who brings it: said by the files and by the trial.
    "npudoctor.checks.trial._modules.",
    # Other ports, for whoever finds that a job's port is held.
    "npudoctor.checks.network._hccl_ports_fixes.",
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


def imports(path: Path) -> Sequence[str]:
    """The absolute names of all modules that a file imports, at any depth but only for type checkers."""
    return imports_of(path.read_text(encoding="utf-8"))


@functools.cache  # most tests here ask it of every file
def imports_of(text: str) -> Sequence[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} of {text}: we import absolutely"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def part_of(name: str) -> str:
    """`host` for npudoctor.host.options; empty for a name of the package itself, as npudoctor.Finding."""
    below = [*name.split("."), ""][1]
    return below if below and ((SOURCE / below).is_dir() or below == "checks") else ""


def ours(path: Path) -> set[str]:
    """The parts of npudoctor that a file imports."""
    names = {name for name in imports(path) if name.split(".")[0] == "npudoctor"}
    return {part_of(name) for name in names} - {""}


@pytest.mark.parametrize("part", [*RANK, *ASIDE])
def test_each_part_imports_only_what_lies_below_it(part: str) -> None:
    below = {other for other in RANK if part in RANK and RANK[other] < RANK[part]} | ASIDE.get(part, set())
    for path in sorted((SOURCE / part).rglob("*.py")):
        assert ours(path) <= below | {part}, path


def test_every_part_has_its_place() -> None:
    parts = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert parts == {*RANK, *ASIDE}


def test_no_module_lies_beside_the_parts() -> None:
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_every_part_says_what_belongs_in_it() -> None:
    for path in SOURCE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_every_part_is_described() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    for part in (*RANK, *ASIDE):
        assert f"`{part}/`" in rows, part


def test_no_files_import_each_other_in_a_circle() -> None:
    """What is imported for type checkers alone counts too: two files that need each other are one subject."""
    left = {path: set(files_imported(path)) - {path} for path in SOURCE.rglob("*.py")}
    while left:
        free = {path for path, imported in left.items() if not imported & set(left)}
        assert free, sorted(path.relative_to(SOURCE).as_posix() for path in left)
        left = {path: imported for path, imported in left.items() if path not in free}


def test_no_room_of_the_host_knows_the_host() -> None:
    """It is made of them; what takes a Host concludes something, and is one of the facts."""
    for path in (SOURCE / "host").rglob("*/*.py"):
        assert SOURCE / "host/host.py" not in files_imported(path), path
        assert SOURCE / "host/__init__.py" not in files_imported(path), path


def rooms_of(floor: Path) -> set[str]:
    """The folders of a floor that hold modules."""
    return {path.parent.name for path in floor.glob("*/__init__.py")}


def against_the_order(floor: Path, order: Sequence[str]) -> Iterator[str]:
    """The imports of a floor's rooms that lead to a later one, be it through loose modules."""
    for path in sorted(floor.glob("*/**/*.py")):
        rank = order.index(path.relative_to(floor).parts[0])
        todo, seen = [path], {path}
        while todo:
            for target in set(files_imported(todo.pop())) - seen:
                seen.add(target)
                if target.parent == floor:
                    todo.append(target)
                elif floor in target.parents and order.index(target.relative_to(floor).parts[0]) > rank:
                    yield f"{path.relative_to(SOURCE)} imports {target.relative_to(SOURCE)}"


@pytest.mark.parametrize("floor", ROOMS)
def test_the_rooms_of_a_floor_import_in_one_order(floor: str) -> None:
    """Function-level imports and those for type checkers count: two rooms that need each other are one."""
    assert sorted(ROOMS[floor]) == sorted(rooms_of(SOURCE / floor))
    assert list(against_the_order(SOURCE / floor, ROOMS[floor])) == []


def test_every_floor_with_rooms_has_their_order() -> None:
    """Of a single room nothing can be said but what holds for its files: no circle."""
    with_rooms = {floor.name for floor in SOURCE.iterdir() if len(rooms_of(floor)) > 1}
    assert with_rooms == set(ROOMS)


def test_an_import_against_the_order_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    for name, code in {
        "low/plain": "from npudoctor.floor.high.top import x",
        "low/hidden": "def f():\n    from npudoctor.floor import loose",
        "low/good": "import npudoctor.floor.low.plain, npudoctor.core.errors",
        "high/top": "from npudoctor.floor.low.good import y",
        "loose": "from npudoctor.floor.high import top",
    }.items():
        path = tmp_path / f"floor/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    assert list(against_the_order(tmp_path / "floor", ("low", "high"))) == [
        "floor/low/hidden.py imports floor/high/top.py",
        "floor/low/plain.py imports floor/high/top.py",
    ]


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/architecture.zh.md"])
def test_the_order_of_rooms_is_described(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for floor, order in ROOMS.items():
        assert f"    {floor + ':':<9}{' < '.join(order)}\n" in text, floor


def files_imported(path: Path) -> Iterator[Path]:
    """The files of ours that a file imports; of `from package import name` the module, if it is one."""
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "npudoctor":
            continue
        for end in range(len(parts), 0, -1):
            found = SOURCE.joinpath(*parts[1:end])
            if end > 1 and found.with_suffix(".py").is_file():
                yield found.with_suffix(".py")
                break
            if end > 1 and (found / "__init__.py").is_file():
                yield found / "__init__.py"
                break


def test_psutil_is_asked_at_one_door_only() -> None:
    """Which loads it when it is asked: elsewhere it would be loaded at start-up, or by a fake."""
    paths = [path for path in SOURCE.rglob("*.py") if "psutil" in set(imports(path))]
    assert paths == [SOURCE / "host/psutil_door.py"]
    (statement,) = (
        node
        for node in ast.parse(paths[0].read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and "import psutil" in ast.unparse(node)
    )
    assert statement.name == "ask_psutil"


def test_one_place_forks_for_an_answer() -> None:
    """The others stand for a process of the caller as long as it lives, and say so in their first lines. The
    trial's parts run in the job's Python, which has none of ours."""
    forking = {
        path.relative_to(SOURCE).as_posix()
        for path in (*SOURCE.rglob("*.py"), *CHECKS)
        if "fork" in path.read_text(encoding="utf-8") and path.parent != SOURCE / "trial/parts"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Attribute, ast.alias))
        and (node.attr if isinstance(node, ast.Attribute) else node.name) in {"fork", "forkpty"}
        and not (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "forked")
    }
    assert forking == {"core/forked.py", "launch/witness.py", "rehearsal/namespaces.py"}
    for name in forking - {"core/forked.py"}:
        tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))
        assert "`core.forked`" in (ast.get_docstring(tree) or ""), name


# Of an ELF file, however it is written in a source: without it there is nothing to look for.
FIRST_BYTE = re.compile(r"x7f|\\177|\x7f", re.IGNORECASE)


def test_elf_files_have_one_reader() -> None:
    """Whoever looks at the first bytes of one asks it, or takes its mark from there."""
    for path in (*SOURCE.rglob("*.py"), *CHECKS):
        if path != SOURCE / "host/libraries/elf.py":
            text = path.read_text(encoding="utf-8")
            if FIRST_BYTE.search(text):
                constants = [
                    node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)
                ]
                assert not any(isinstance(value, bytes) and b"\x7fELF" in value for value in constants), path
            assert not any(name.split(".")[0] == "elftools" for name in imports(path)), path


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_check_asks_the_host_only(path: Path) -> None:
    assert ours(path) <= PUBLIC, path
    for name in imports(path):
        if name.startswith("npudoctor.core."):
            assert name.split(".")[2] in CORE_FOR_CHECKS, name
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
    assert set(files_imported(bad)) == {SOURCE / "cli/main.py", SOURCE / "runner/runner.py"}
    bad.write_text("from npudoctor import Finding, _, runner\n")
    assert ours(bad) == {"runner"} and set(files_imported(bad)) == {SOURCE / "runner/__init__.py"}
