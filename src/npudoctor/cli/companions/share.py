"""Writes what is made of the command line: the files below share/, and the table of plain lines.

The build runs this in a process of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from npudoctor.cli.arguments.table import FILE
from npudoctor.cli.companions.bash import bash_completion
from npudoctor.cli.companions.fish import fish_completion
from npudoctor.cli.companions.grammar import command_tree, known_words
from npudoctor.cli.companions.man import manual_pages
from npudoctor.cli.companions.plain_table import plain_table
from npudoctor.cli.companions.zsh import zsh_completion
from npudoctor.core import messages

PLACES = {
    "bash": "bash-completion/completions/npudoctor",
    "zsh": "zsh/site-functions/_npudoctor",
    "fish": "fish/vendor_completions.d/npudoctor.fish",
}
MANUALS = {"en": "man/man1", "zh": "man/zh_CN/man1"}


def completion(shell: str) -> str:
    """The completion for a shell, in the language spoken now."""
    make = {"bash": bash_completion, "zsh": zsh_completion, "fish": fish_completion}[shell]
    return make(command_tree(), known_words())


def files(language: str) -> Iterator[tuple[str, str]]:
    """Path below share/, and content: the manual pages of a language, and of English also the completion."""
    if language == "en":
        yield from ((path, completion(shell)) for shell, path in PLACES.items())
    yield from ((f"{MANUALS[language]}/{name}", text) for name, text in manual_pages(command_tree()))


def write(folder: str, language: str) -> None:
    """Write them. The help of a command is translated when it is loaded, so each language is a process."""
    messages.activate(language)
    for path, text in files(language):
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)


def write_plain_table(path: str = FILE) -> None:
    """Write the table as a whole: another npudoctor of this tree may be reading it."""
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(plain_table(), file, separators=(",", ":"))
    os.replace(scratch, path)
