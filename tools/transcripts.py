"""Compare what documents show as output of npudoctor with what it says; fail where they differ.

A transcript is a block between ``` with a line `$ npudoctor ...`. Each of its lines, joined with those that
it was wrapped into, must be a message of the sources (in Chinese its translation, or English where there is
none) with values in its places, or several of them joined as the program joins them. A value that is words
must be a message too, or one of FOREIGN and NAMES: what other programs say, and names of the examples.
Help texts are not looked at: tools/readme.py writes those.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import polib

sys.path.insert(0, str(Path(__file__).resolve().parent))
import messages

ROOT = messages.ROOT
CATALOGUE = ROOT / "src/npudoctor/locale/zh_CN/LC_MESSAGES/npudoctor.po"
DOCUMENTS = ("README*.md", "docs/*.md", "integrations/*/README*.md")
# What an example may quote of others. Everything else that is words is ours.
FOREIGN = re.compile(
    r"Debian GNU/Linux 12 \(bookworm\)|nft inet filter input: handle \d+|sh: 1: npudoctor: not found"
    r"|ssh: connect to host \S+ port 22: Connection timed out"
)
NAMES = {"CANN", "GiB", "MiB", "TCP", "Python", "npudoctor", "vm", "rehearsal", "rehearse"}
NAMES |= {"user", "mnt", "pid", "ipc", "net", "uts", "cgroup"}
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
LETTER = re.compile(r"[^\W\d_]")
# Where the program joins two texts. A blank joins only a word and what it is about: "error CODE".
JOINT = re.compile(r"(?=(: ?|, |; | \(|\)|[：，；、（）]| ))")
PROMPT = re.compile(r"\$ (?=npudoctor )")
CODE = re.compile(r"(?P<check>[a-z0-9-]+)\.[a-z0-9-]+")
VALUE = re.compile(r"[-+]{0,2}[\x21-\x7e]*[\d/=][\x21-\x7e]*|--?[a-z][a-z-]*|--")
TOOLS = {"ipcrm", "rm"}
COMMANDS = set(
    "check fix undo history env run explain rehearse snapshot diff list show schema completion fleet report "
    "npu gpu none zh en".split()
)
LONGEST = 6  # lines that one sentence is wrapped into


@dataclass(frozen=True)
class Names:
    """What the program calls its parts: these are the same in each language."""

    codes: frozenset[str]
    checks: frozenset[str]
    others: frozenset[str]
    options: frozenset[str]


def names(root: Path = ROOT) -> Names:
    """Read from where each of them is declared."""
    checks, program, faults = (
        {path: path.read_text(encoding="utf-8") for path in (root / folder).rglob("[a-z]*.py")}
        for folder in ("checks", "src/npudoctor/cli", "src/npudoctor/rehearsal/faults")
    )
    codes = re.findall(r'"([a-z0-9-]+\.[a-z0-9-]+)"', "".join(checks.values()))
    others = {path.parent.name for path in checks}
    others.update(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', "".join(faults.values())))
    options = re.findall(r'["/ ](--?[a-z][a-z-]*)', "".join(program.values()))
    ids = (path.stem.replace("_", "-") for path in checks)
    return Names(*map(frozenset, (codes, ids, others, options)))


class Speech:
    """What the program can say in one language."""

    def __init__(self, texts: Iterable[str], own: Names) -> None:
        self._own = own
        # Each with its longest piece, which a line must contain: most patterns need no trial.
        pieces = ((PLACEHOLDER.split(text), text) for text in set(texts))
        # What has no word of its own would say anything; joints tell that better.
        self._patterns = [
            (max(parts, key=len), _pattern(text)) for parts, text in pieces if LETTER.search("".join(parts))
        ]
        self._known: dict[str, bool] = {}

    def explains(self, text: str) -> bool:
        """Whether the program could have said just this."""
        text = text.strip()
        if text not in self._known:
            self._known[text] = False  # what is made of itself is no answer
            self._known[text] = self._value(text) or self._message(text) or self._joined(text)
        return self._known[text]

    def _message(self, text: str) -> bool:
        for piece, pattern in self._patterns:
            match = pattern.fullmatch(text) if piece in text else None
            if match and all(map(self._filled, match.groups())):
                return True
        return False

    def _filled(self, value: str) -> bool:
        """What stands in a place of a message: a word of any kind, or what explains itself."""
        return (value.isascii() and " " not in value and self._coded(value)) or self.explains(value)

    def _joined(self, text: str) -> bool:
        """Two texts, each of which the program says; of the last joint, a blank, one word and the rest."""
        for joint in JOINT.finditer(text):
            left, right = text[: joint.start()], text[joint.end(1) :]
            apart = joint[1] != " " or " " not in left
            if apart and (left or right) and self.explains(left) and self.explains(right):
                return True
        return False

    def _value(self, text: str) -> bool:
        """No words: numbers, paths, names of ours, what others say; or a command."""
        if FOREIGN.fullmatch(text) or text == "...":
            return True
        words = text.split()
        return all(map(self._named, words)) or self.command(words)

    def _named(self, word: str) -> bool:
        own = self._own
        if word in NAMES | own.codes | own.checks | own.others | own.options:
            return True
        return not word.startswith("--") and bool(VALUE.fullmatch(word)) and self._coded(word)

    def _coded(self, word: str) -> bool:
        """No code of a check that has no such code."""
        match = CODE.fullmatch(word)
        return not match or match["check"] not in self._own.checks or word in self._own.codes

    def command(self, words: Sequence[str]) -> bool:
        """A command to type: of ours one with options that exist."""
        if words[:1] == ["$"]:
            return self.command(words[1:])
        if words[:1] != ["npudoctor"]:
            return bool(words) and words[0] in TOOLS and all(map(VALUE.fullmatch, words[1:]))
        options = self._own.options | {"--"}
        return all(
            word.partition("=")[0] in options if word.startswith("-") else self._argument(word)
            for word in words[1:]
        )

    def _argument(self, word: str) -> bool:
        known = COMMANDS | self._own.checks | self._own.codes | self._own.others
        return word in known or bool(re.search(r"[\d/.\[]", word)) or word.isupper()


def _pattern(text: str) -> re.Pattern[str]:
    """A message with anything in its places."""
    return re.compile("(.+?)".join(map(re.escape, PLACEHOLDER.split(text))), re.DOTALL)


def speeches() -> dict[str, Speech]:
    """What the sources of today say in each language."""
    said = messages.extract()
    english = {msgid: [text for text in (msgid, entry.plural) if text] for msgid, entry in said.items()}
    catalogue = polib.pofile(str(CATALOGUE), encoding="utf-8")
    there = {entry.msgid: messages._texts(entry) for entry in catalogue.translated_entries()}
    chinese = {msgid: there.get(msgid, texts) for msgid, texts in english.items()}
    own = names()
    return {
        language: Speech(_with_reasons(chain.from_iterable(texts.values())), own)
        for language, texts in (("en", english), ("zh", chinese))
    }


def _with_reasons(texts: Iterable[str]) -> Iterator[str]:
    """Each text, and of one that begins with a verdict the rest, which reports show behind their own word."""
    for text in texts:
        yield text
        if match := re.match("(undetermined: |无法判断：)(.+)", text):
            yield match[2]


def blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each transcript: the number of its first line, and its lines."""
    start, inside = 0, False
    for number, line in enumerate(lines := text.splitlines()):
        if line.lstrip().startswith("```"):
            block = lines[start:number]
            if inside and any(map(PROMPT.match, block)) and " --help" not in block[0]:
                yield start + 1, block
            start, inside = number + 1, not inside


def drifts(name: str, text: str, speech: Speech) -> Iterator[str]:
    """The lines of one document that the program does not print."""
    for first, lines in blocks(text):
        status, number = False, 0
        while number < len(lines):
            line = lines[number]
            if PROMPT.match(line):
                status = "echo $?" in line
                taken = int(speech.command(re.split(r"[;|>]| \d>", line[2:])[0].split()))
            elif not line.strip() or (status and line.strip().isdigit()):
                taken = 1
            else:
                taken = _sentence(lines[number : number + LONGEST], speech)
            if not taken:
                yield f"{name}:{first + number}: npudoctor does not print this: {line.strip()}"
            number += taken or 1


def _sentence(lines: Sequence[str], speech: Speech) -> int:
    """How many of these lines are one sentence of the program; 0 where the first belongs to none."""
    for count in range(_wrapped(lines), 0, -1):
        parts = [line.strip() for line in lines[:count]]
        # Chinese is broken between any two characters, all else at a blank.
        if speech.explains(_glued(parts)) or speech.explains(" ".join(parts)):
            return count
    return 0


def _glued(parts: Sequence[str]) -> str:
    """Joined with a blank only where neither side is Chinese."""
    text = parts[0]
    for part in parts[1:]:
        text += (" " if text[-1].isascii() and part[0].isascii() else "") + part
    return text


def _wrapped(lines: Sequence[str]) -> int:
    """How many lines the sentence of the first may have: those after it that are indented, and as far."""
    depths = [len(line) - len(line.lstrip()) if line.strip() else -1 for line in lines]
    return next((n for n in range(1, len(lines)) if depths[n] < max(depths[0], 1)), len(lines))


def main() -> int:
    """Say where documents show what the program does not print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="as without: nothing is ever written")
    parser.parse_args()
    spoken, wrong, count = speeches(), 0, 0
    for path in sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        count += sum(1 for _block in blocks(text))
        for drift in drifts(str(path.relative_to(ROOT)), text, spoken["zh" if ".zh." in path.name else "en"]):
            print(drift, file=sys.stderr)
            wrong += 1
    print(f"{count} transcripts, {wrong} lines that npudoctor does not print")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
