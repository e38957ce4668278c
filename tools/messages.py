"""Bring the message catalogues up to date with the sources; with --check say what is wrong with them, with
--release also what is not translated yet.

Messages are the arguments of _() and its kin, the titles of checks (first line of the docstring), and the
help of commands and options; in the catalogue `manuals` each block of the rest of a check's docstring.
A catalogue is sorted and names files, not lines: a change moves nothing else.
Not Babel (33 MB): titles and help would need a plug-in as long as `messages_in`, and it would save `updated`.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src/npudoctor", "checks")
SINGULAR = {"_", "N_", "gettext"}
PLURAL = {"ngettext", "_n", "N_n"}
# What others say through us: typer, which asks gettext (before 0.26; what it says without is replaced in
# npudoctor.cli), and glibc, by messages.strerror().
BORROWED = (
    "Argument list too long",
    "Arguments",
    "Bad file descriptor",
    "Broken pipe",
    "Cannot allocate memory",
    "Commands",
    "Connection timed out",
    "Device or resource busy",
    "Directory not empty",
    "Disk quota exceeded",
    "Exec format error",
    "File exists",
    "File name too long",
    "File too large",
    "Function not implemented",
    "Input/output error",
    "Invalid argument",
    "Invalid cross-device link",
    "Is a directory",
    "Missing command.",
    "No space left on device",
    "No such command {name!r}.",
    "No such device",
    "No such device or address",
    "No such file or directory",
    "No such process",
    "Not a directory",
    "Operation not permitted",
    "Operation not supported",
    "Options",
    "Permission denied",
    "Read-only file system",
    "Resource temporarily unavailable",
    "Stale file handle",
    "Text file busy",
    "Too many levels of symbolic links",
    "Too many open files",
    "Too many open files in system",
    "Transport endpoint is not connected",
)
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%\(\w+\)[a-z]|%[sd]")
WRAP = 110


@dataclass
class Message:
    """One text to translate."""

    msgid: str
    plural: str = ""
    files: set[str] = field(default_factory=set)


class NotConstant(Exception):
    """A text that no catalogue can know, as it is put together before it is looked up."""


def extract(root: Path = ROOT, domain: str = "npudoctor") -> dict[str, Message]:
    """All messages of the sources, by msgid."""
    spoken = domain == "npudoctor"
    messages = {msgid: Message(msgid, files={"tools/messages.py"}) for msgid in BORROWED if spoken}
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"), name)
            for msgid, plural in messages_in(tree, name) if spoken else manuals_in(tree):
                message = messages.setdefault(msgid, Message(msgid))
                message.plural = message.plural or plural
                message.files.add(name)
    return messages


def messages_in(tree: ast.AST, name: str = "?") -> Iterator[tuple[str, str]]:
    """Each (msgid, plural) of one file; plural is empty where there is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = {_last_name(decorator) for decorator in node.decorator_list}
            first = (ast.get_docstring(node) or "").partition("\n")[0].strip()
            if first and "check" in decorators:
                yield first.rstrip("."), ""  # as Check.title has it
            elif first and decorators & {"command", "callback"}:
                yield first, ""


def manuals_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each block of the manuals of a file's checks; parted as npudoctor.render.listing does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "check" in map(_last_name, node.decorator_list):
            body = (ast.get_docstring(node) or "").partition("\n")[2].strip("\n")
            yield from ((block, "") for block in body.split("\n\n") if block)


def _call(node: ast.Call, name: str) -> Iterator[tuple[str, str]]:
    for keyword in node.keywords:
        if keyword.arg == "help" and (text := _constant(keyword.value)):
            yield text, ""
    function = _last_name(node.func)
    wanted = 2 if function in PLURAL else 1 if function in SINGULAR else 0
    if not wanted or len(node.args) < wanted:
        return
    if any(isinstance(argument, (ast.JoinedStr, ast.BinOp, ast.Call)) for argument in node.args[:wanted]):
        raise NotConstant(f"{name}:{node.lineno}: {function}() of a text that is put together first")
    texts = [_constant(argument) for argument in node.args[:wanted]]
    if texts[0]:  # a variable was marked elsewhere, with N_()
        yield texts[0], texts[1] or "" if wanted == 2 else ""


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _last_name(node: ast.expr) -> str:
    """`check` of @check(...), `command` of @app.command()."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def updated(old: polib.POFile, messages: dict[str, Message]) -> polib.POFile:
    """The catalogue that the sources ask for, with every translation that still fits.

    Where a text was only reworded, its translation is kept as fuzzy: shown to translators, not to users.
    """
    kept = {entry.msgid: entry for entry in old if not entry.obsolete}
    gone = [msgid for msgid in kept if msgid not in messages]
    new = polib.POFile(wrapwidth=WRAP)
    new.header, new.metadata, new.metadata_is_fuzzy = old.header, old.metadata, old.metadata_is_fuzzy
    for msgid in sorted(messages):
        message = messages[msgid]
        entry = polib.POEntry(msgid=msgid, occurrences=[(name, "") for name in sorted(message.files)])
        former = kept.get(msgid)
        if former is None and (close := difflib.get_close_matches(msgid, gone, n=1, cutoff=0.7)):
            former = kept[close[0]]
            entry.flags = ["fuzzy"]
        if message.plural:
            entry.msgid_plural = message.plural
            entry.msgstr_plural = former.msgstr_plural if former and former.msgstr_plural else {0: ""}
        elif former:
            entry.msgstr = former.msgstr
        if former:
            entry.flags = former.flags or entry.flags
            entry.tcomment = former.tcomment
        new.append(entry)
    return new


def missing(catalogue: polib.POFile) -> Iterator[str]:
    """What is not translated yet: English is shown in its place, so only a release waits for it."""
    for entry in catalogue:
        if not all(_texts(entry)):
            yield f"untranslated: {entry.msgid!r}"
        elif entry.fuzzy:
            yield f"fuzzy: {entry.msgid!r}"


def problems(catalogue: polib.POFile) -> Iterator[str]:
    """What keeps a translation from being safe to use."""
    for entry in catalogue:
        if entry.fuzzy:
            continue
        wanted = placeholders(entry.msgid_plural or entry.msgid)
        for got in map(placeholders, filter(None, _texts(entry))):
            if got != wanted:
                yield f"placeholders {sorted(got)} instead of {sorted(wanted)}: {entry.msgid!r}"


def _texts(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def placeholders(text: str) -> set[str]:
    """The parts of a text that are filled in, and must be in its translation too."""
    return set(PLACEHOLDER.findall(text))


def main() -> int:
    """Update the catalogues, or judge them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when a translation is wrong"
    )
    parser.add_argument("--release", action="store_true", help="as --check; fail also when one is missing")
    options = parser.parse_args()
    paths = sorted(ROOT.glob("src/npudoctor/locale/*/LC_MESSAGES/*.po"))
    try:
        return max([_judge(path, extract(domain=path.stem), options) for path in paths], default=0)
    except NotConstant as error:
        print(error, file=sys.stderr)
        return 1


def _judge(path: Path, messages: dict[str, Message], options: argparse.Namespace) -> int:
    """Bring one catalogue up to date, or say what is wrong with it; the exit status."""
    name = path.relative_to(ROOT)
    new = updated(polib.pofile(str(path), encoding="utf-8", wrapwidth=WRAP), messages)
    wrong, untold = list(problems(new)), list(missing(new))
    text, stale = f"{new}".rstrip() + "\n", ""
    if not (options.check or options.release):
        path.write_text(text, encoding="utf-8")
        print(f"{name}: {len(new)} messages, {len(wrong)} wrong, {len(untold)} missing")
    elif text != path.read_text(encoding="utf-8"):
        stale = "out of date: run `make messages`"
    # --check is silent about what only a release waits for.
    for complaint in filter(None, wrong if options.check else (*wrong, stale, *untold)):
        print(f"{name}: {complaint}", file=sys.stderr)
    return int(bool((options.check and wrong) or (options.release and (wrong or stale or untold))))


if __name__ == "__main__":
    sys.exit(main())
