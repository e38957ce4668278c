"""Hold names and comments to what CONTRIBUTING asks for; say nothing where they keep to it.

- A function is a verb: no participle or adjective, as judged(), carried_out(), usable(). A property may be.
- Nothing in src/ and checks/ is bound to a filler name (FILLERS): the field has a word for it.
- A class name means one thing: no two classes of src/, checks/, tools/ and build_backend/ share it.
- A new file, and what a change adds to a file, has a comment (`# why`) for every 20 lines of code: 5 %. Less
  than 40 lines may do without, and so may a file that has 5 % already.

What broke the first three at their start is counted in names_baseline.txt, by name. A count only shrinks:
`python tools/names.py --shrink` takes out what is mended.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path("tools/names_baseline.txt")
PRODUCT, OURS = ("src", "checks"), ("src", "checks", "tools", "build_backend")
FILLERS = {"found", "given", "meant", "one", "told", "what"}
VERBS = {"bleed", "embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed", "succeed"}
# Participles that do not end in -ed, and adjectives.
OTHERS = set(
    "bound broken built done drawn due found free full given gone heard held hidden idle kept known left "
    "loose lost made meant missing new old own ready safe said seen sent shown sound spoken taken told "
    "unfit unknown usable worn worth written wrong".split()
)
# What may follow one in a name: before a noun, as in shared_memory(), a participle names what is returned.
AFTER = set(
    "as at away before by down first for from here in instead of off on once out over to up with".split()
)
SHORT, SHARE = 40, 0.05
ADVICE = {
    "function": "is no verb: say what it does, as judge(), is_installed(), read_version()",
    "binding": "says nothing: use the word of the field, as finding, package, path",
    "class": "is the name of several classes: give each its own",
}
Violations = dict[tuple[str, str], list[str]]


def is_adjective(name: str) -> bool:
    """Whether a function's name is a participle or an adjective."""
    first, *rest = name.strip("_").split("_")
    return ((first.endswith("ed") and first not in VERBS) or first in OTHERS) and AFTER.issuperset(rest)


def names_in(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Each (kind, name, line) of one file that ADVICE is about; every class, as it may be elsewhere, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = "".join(map(ast.unparse, node.decorator_list))
            if is_adjective(node.name) and "property" not in decorators:
                yield "function", node.name, node.lineno
        else:  # an argument, or a name that something is assigned to
            name = getattr(node, "arg" if isinstance(node, ast.arg) else "id", "")
            if name in FILLERS and not isinstance(getattr(node, "ctx", None), ast.Load):
                yield "binding", name, getattr(node, "lineno", 0)


def violations(root: Path) -> Violations:
    """Where each name stands that breaks a rule, by kind and name."""
    places: Violations = defaultdict(list)
    for folder in OURS:
        for path in sorted((root / folder).rglob("*.py")):
            where = path.relative_to(root).as_posix()
            for kind, name, line in names_in(ast.parse(path.read_text(encoding="utf-8"), where)):
                if kind == "class" or folder in PRODUCT:  # few read our tools
                    places[kind, name].append(f"{where}:{line}")
    return {key: at for key, at in places.items() if key[0] != "class" or len(at) > 1}


def changed_files(root: Path) -> dict[Path, str]:
    """What differs from where this branch left origin/main, else from the last tag or commit, and how it was
    before, "" where it is new; nothing where there is no git."""

    def git(*words: str) -> str:
        argv = ["git", "-C", str(root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    ours = [f"{folder}/*.py" for folder in OURS]
    for words in ("merge-base HEAD origin/main", "describe --tags --abbrev=0", "rev-parse HEAD"):
        with suppress(OSError, subprocess.CalledProcessError):
            # An sdist may lie unpacked inside of a clone of something else.
            if Path(git("rev-parse", "--show-toplevel").strip()) != root.resolve():
                break
            base = git(*words.split()).strip()
            before = dict.fromkeys(git("ls-files", "--others", "--exclude-standard", "--", *ours).split(), "")
            for row in git("diff", "--name-status", "--find-renames", base, "--", *ours).splitlines():
                kind, *names = row.split("\t")
                if kind != "D":
                    before[names[-1]] = "" if kind == "A" else git("show", f"{base}:{names[0]}")
            return {root / name: text for name, text in before.items()}
    return {}


def count_lines(text: str) -> tuple[int, int]:
    """Its lines of code, docstrings and other texts left out, and its comments."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = {token.start[0] for token in tokens if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER)}
    return len(code), sum(token.type == tokenize.COMMENT for token in tokens)


def complaints(root: Path, broken: Violations, allowed: Counter[tuple[str, str]]) -> Iterator[str]:
    """A line for each thing to mend, which says how."""
    changed = changed_files(root)
    for (kind, name), places in sorted(broken.items()):
        if len(places) > allowed[kind, name]:
            # The baseline has no places, so that files may move: what was changed is most likely new.
            mine = [place for place in places if root / place.partition(":")[0] in changed]
            yield f"{', '.join(mine or places)}: {kind} {name} {ADVICE[kind]}"
    if any(count > len(broken.get(key, ())) for key, count in allowed.items()):
        yield f"{BASELINE}: names in it are mended: python tools/names.py --shrink"
    for path, before in changed.items():
        (code, comments), (old_code, old_comments) = map(
            count_lines, (path.read_text(encoding="utf-8"), before)
        )
        needed = int(min(SHARE * code, old_comments + SHARE * (code - old_code)))
        if code - old_code >= SHORT and comments < needed:
            yield f"{path.relative_to(root)}: {comments} comments, not {needed} in {code} lines: say why"


def main(root: Path = ROOT, shrink: bool = False) -> int:
    """Say what is wrong, 1 where something is; with `shrink` take out of the baseline what is mended."""
    rows = (line.split() for line in (root / BASELINE).read_text(encoding="utf-8").splitlines())
    allowed = Counter({(kind, name): int(count) for kind, name, count in rows})
    broken = violations(root)
    if shrink:
        left = {key: min(count, len(broken.get(key, ()))) for key, count in allowed.items()}
        lines = [f"{kind} {name} {count}\n" for (kind, name), count in sorted(left.items()) if count]
        (root / BASELINE).write_text("".join(lines), encoding="utf-8")
        return 0
    lines = list(complaints(root, broken, allowed))
    print(*lines, sep="\n", end="\n" * bool(lines), file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(shrink="--shrink" in sys.argv))
