"""The lint of names and comments complains of what breaks a rule, and its baseline only shrinks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "tools/names_baseline.txt"
CODE = "".join(f"x{number} = {number}\n" for number in range(50))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("names_tool", ROOT / "tools" / "names.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree without git, in which everything is well."""
    write(tmp_path, BASELINE, "")
    write(tmp_path, "src/well.py", "class Peer: ...\ndef judge(finding): return finding\n")
    return tmp_path


def write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


def git(tree: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(tree), *own, *words], check=True, capture_output=True)


@pytest.mark.parametrize(
    "name", ["judged", "_carried_out", "found", "usable", "missing", "wanted_by", "died_once"]
)
def test_a_participle_or_an_adjective_is_no_function(tool: ModuleType, name: str) -> None:
    assert tool.is_adjective(name)


@pytest.mark.parametrize(
    "name", ["judge", "_need", "feed", "shared_memory", "is_installed", "read_seed", "open"]
)
def test_a_verb_or_a_noun_is_one(tool: ModuleType, name: str) -> None:
    assert not tool.is_adjective(name)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def judged(): ...", "src/bad.py:1: function judged is no verb"),
        ("class A:\n    async def _found(self): ...", "src/bad.py:2: function _found is no verb"),
        ("one = 1", "src/bad.py:1: binding one says nothing"),
        ("for what in x: pass", "binding what says nothing"),
        ("x = [told for told in y]", "binding told says nothing"),
        ("def read(meant): ...", "binding meant says nothing"),
        ("f = lambda given: 0", "binding given says nothing"),
        ("class Peer: ...", "src/bad.py:1, src/well.py:1: class Peer is the name of several classes"),
    ],
)
def test_each_rule_complains(
    tool: ModuleType, tree: Path, source: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(tree) == 0
    assert capsys.readouterr() == ("", "")
    write(tree, "src/bad.py", source)
    assert tool.main(tree) == 1
    said = capsys.readouterr()
    assert said.out == "" and complaint in said.err and said.err.count("\n") == 1


def test_others_words_are_let_alone(tool: ModuleType, tree: Path) -> None:
    lines = (
        "from x import found",
        "print(one, y.told)",
        "class A:\n    @property\n    def usable(self): ...",
        "x.given = 1",
        "f(what=2)",
    )
    write(tree, "src/odd.py", "\n".join(lines))
    write(tree, "tools/tool.py", "one = 1\ndef judged(): ...")
    assert tool.main(tree) == 0


def test_the_baseline_only_shrinks(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree, BASELINE, "binding one 2\nfunction judged 1\n")
    write(tree, "src/bad.py", "one = 1\none = 2\ndef judged(): ...\n")
    assert tool.main(tree) == 0
    (tree / "src/bad.py").rename(tree / "src/moved.py")
    assert tool.main(tree) == 0
    write(tree, "src/moved.py", "one = 1\ndef judged(): ...\ndef counted(): ...\n")
    assert tool.main(tree) == 1
    said = capsys.readouterr().err
    assert "function counted" in said and "python tools/names.py --shrink" in said
    assert tool.main(tree, shrink=True) == 0
    assert (tree / BASELINE).read_text() == "binding one 1\nfunction judged 1\n"
    assert tool.main(tree) == 1  # counted() is not taken in


def test_comments_of_a_changed_file(tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few, enough = "# why\n" + CODE, "# why\n" * 3 + CODE
    write(tree, "src/old.py", few)
    assert tool.main(tree) == 0  # nothing is changed without git
    git(tree, "init")
    git(tree, "add", ".")
    git(tree, "commit", "-m", "first")
    assert tool.main(tree) == 0
    write(tree, "src/new.py", few)
    assert tool.main(tree) == 1
    assert "src/new.py: 1 comments, not 2 in 50 lines: say why" in capsys.readouterr().err
    write(tree, "src/new.py", enough)
    write(tree, "src/short.py", CODE[:100])
    write(tree, "src/old.py", few + CODE[:100])
    assert tool.main(tree) == 0  # a few lines may do without
    write(tree, "src/old.py", few + CODE)
    assert tool.main(tree) == 1
    write(tree, "src/old.py", few + enough)
    assert tool.main(tree) == 0  # the old part is as it was
    write(tree, "src/old.py", few)
    git(tree, "mv", "src/old.py", "src/renamed.py")
    assert tool.main(tree) == 0
    git(tree, "add", ".")
    git(tree, "commit", "-m", "second")
    git(tree, "update-ref", "refs/remotes/origin/main", "HEAD~")
    write(tree, "src/new.py", CODE)
    git(tree, "commit", "-a", "-m", "third")
    assert tool.main(tree) == 1  # of all that a branch changes


def test_a_name_that_is_new_is_told_where_it_is_new(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tree, BASELINE, "binding one 1\n")
    write(tree, "src/old.py", "one = 1\n")
    git(tree, "init")
    git(tree, "add", ".")
    git(tree, "commit", "-m", "first")
    write(tree, "src/new.py", "one = 1\n")
    assert tool.main(tree) == 1
    assert capsys.readouterr().err.startswith("src/new.py:1: binding one")
