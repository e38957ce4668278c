"""Writes the files that are made from the command line: those in share/, and the table of plain lines.

The build runs this in a process of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from npudoctor.cli.arguments.table import FILE
from npudoctor.cli.companions.bash import bash_completion
from npudoctor.cli.companions.fish import fish_completion
from npudoctor.cli.companions.grammar import command_tree, list_known_words
from npudoctor.cli.companions.man import manual_pages
from npudoctor.cli.companions.plain_table import make_plain_table
from npudoctor.cli.companions.zsh import zsh_completion
from npudoctor.core import messages

PLACES = {
    "bash": "bash-completion/completions/npudoctor",
    "zsh": "zsh/site-functions/_npudoctor",
    "fish": "fish/vendor_completions.d/npudoctor.fish",
}
MANUALS = {"en": "man/man1", "zh": "man/zh_CN/man1"}


def completion_for(shell: str) -> str:
    """The completion script for a shell, in the current language."""
    make = {"bash": bash_completion, "zsh": zsh_completion, "fish": fish_completion}[shell]
    return make(command_tree(), list_known_words())


def list_files(language: str) -> Iterator[tuple[str, str]]:
    """Yield path below share/ and content: the manual pages of a language; with English, the completion,
    too."""
    if language == "en":
        yield from ((path, completion_for(shell)) for shell, path in PLACES.items())
    yield from ((f"{MANUALS[language]}/{name}", text) for name, text in manual_pages(command_tree()))


def write(folder: str, language: str) -> None:
    """Write the files of a language. One call per process: help is translated when a command is imported."""
    messages.activate(language)
    for path, text in list_files(language):
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)


def write_plain_table(path: str = FILE) -> None:
    """Write the table atomically: another npudoctor of this tree may be reading it."""
    # In the same directory, as os.replace cannot cross file systems; with the pid, as two builds may run at
    # once.
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(make_plain_table(), file, separators=(",", ":"))
    os.replace(scratch, path)
