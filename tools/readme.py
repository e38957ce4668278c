"""Fill the generated parts of docs/ from the program itself; with --check fail when they are stale.

A part stands between `<!-- checks:begin -->` and `<!-- checks:end -->` (the table of checks), or between
`<!-- help:begin -->` and `<!-- help:end -->` (`npudoctor --help`; `help check` is `npudoctor check --help`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any, Callable

import polib

ROOT = Path(__file__).resolve().parent.parent
CATALOGUES = ROOT / "src" / "npudoctor" / "locale"
PART = re.compile(
    r"(?P<begin><!-- (?P<name>[a-z -]+?):begin -->\n)(?P<body>.*?)(?P<end>^<!-- (?P=name):end -->$)",
    re.DOTALL | re.MULTILINE,
)
PAGES = {
    "docs/checks.md": ("en", ""),
    "docs/checks.zh.md": ("zh", "zh_CN"),
    "docs/cli.md": ("en", ""),
    "docs/cli.zh.md": ("zh", "zh_CN"),
}
HEADINGS = {
    "en": ("Check", "Code", "Severity"),
    "zh": ("检查项", "代码", "级别"),
}


def npudoctor(language: str, *arguments: str) -> str:
    """What the npudoctor of this interpreter prints, free of this shell's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NPUDOCTOR_")}
    environment.update(
        NPUDOCTOR_LANG=language, NPUDOCTOR_CHECKS_DIR="", COLUMNS="100", TERM="dumb", NO_COLOR="1"
    )
    command = [sys.executable, "-m", "npudoctor", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout


def table(checks: list[dict[str, Any]], language: str, translate: Callable[[str], str]) -> str:
    """The checks of each group, in Markdown: what is true when all is well, and a row for each code."""
    lines: list[str] = []
    for group, members in groupby(sorted(checks, key=lambda check: (check["group"], check["id"])), _group):
        lines += [f"## {group}", "", "| " + " | ".join(HEADINGS[language]) + " |", "|" + " --- |" * 3]
        for check in members:
            path = f"../checks/{check['group']}/{check['id'].replace('-', '_')}.py"
            title = translate(check["title"]).replace("|", r"\|")
            first = f"[`{check['id']}`]({path}): {title}"
            for code, severity in sorted(check["codes"].items()):
                lines.append(f"| {first} | `{code}` | {translate(severity)} |")
                first = ""
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _group(check: dict[str, Any]) -> str:
    return str(check["group"])


def part(name: str, language: str, folder: str) -> str:
    """The text of one generated part."""
    if name == "checks":
        checks = json.loads(npudoctor("en", "list", "--format", "json"))["checks"]
        return table(checks, language, translator(folder))
    if name.split()[0] == "help":
        arguments = [*name.split()[1:], "--help"]
        text = "\n".join(line.rstrip() for line in npudoctor(language, *arguments).strip().splitlines())
        return f"```console\n$ npudoctor {' '.join(arguments)}\n{text}\n```\n"
    raise ValueError(f"nothing generates the part {name!r}")


def translator(folder: str) -> Callable[[str], str]:
    """A function that looks a text up in the catalogue; what is not in it stays as it is."""
    if not folder:
        return str
    catalogue = polib.pofile(str(CATALOGUES / folder / "LC_MESSAGES" / "npudoctor.po"), encoding="utf-8")
    translations = {entry.msgid: entry.msgstr for entry in catalogue.translated_entries()}
    return lambda text: translations.get(text, text)


def filled(text: str, language: str, folder: str) -> str:
    """A page with its parts as they should be."""
    return PART.sub(lambda match: match["begin"] + part(match["name"], language, folder) + match["end"], text)


def main() -> int:
    """Rewrite the pages or, with --check, compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when something is out of date"
    )
    check: bool = parser.parse_args().check
    stale = 0
    for name, (language, folder) in PAGES.items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = filled(old, language, folder)
        if new != old and check:
            print(f"{name} is out of date: run `make docs`", file=sys.stderr)
            stale += 1
        elif new != old:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: rewritten")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
