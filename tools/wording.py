"""Say where English stands that a reader must read twice: in messages, manuals, signatures, documents.

Each form stands beside a sentence in which it was found. Read from the sources, as a new message is in no
catalogue yet.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import messages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Not a prose linter such as Vale: their rules know common English, and what stood here was rare.
ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = {
    r"\b[Mm]end(s|ed|ing)?\b": "fix mends it",
    r"\btook no part\b": "node7 took no part",
    r"\b(is|are) told\b|\btells less\b": "a report: it tells less than a snapshot",
    r"\b(is|are) (not )?of (which|another|the same)\b": "the report is of another node",
    r"\bis no (list|number|port|address|JSON|string|netmask)\b": "HCCL_CONNECT_TIMEOUT is no number",
    r"\b[Bb]eside (it|this|that|them|another)\b": "1, or 0 with NCCL_P2P_DISABLE beside it",
    r"\bwhat (it came with|can be typed|stands)\b": "to fix what can be typed:",
    r"\bhangs? in the kernel\b": "the process hangs in the kernel",
    r"\b[Nn]obody (knows|needs|says|tells|answers|binds)\b": "nobody knows the master's name",
    r"\b[Ee]verybody\b": "everybody can write there",
    r"\bsuits?\b|\bdo(es)? not (suit|fit)\b": "whole libraries that suit the frameworks",
    r"\bgo(es)? with (the installed|CANN|this)\b": "torch_npu goes with CANN 8.1",
    r"\bknown here\b|\banew\b|\ball the same,|\blest\b": "make the container anew with more",
    r"\bfor want of\b|\bin vain\b|\bno way out\b": "refused for want of a known remedy",
    r"\bcounts as\b|\b(is|are) taken for\b": "an empty value counts as unset",
    r"\bway to the master\b": "there is no way to the master",
    r"\bspoken of\b|\bspeaks? of\b": "an error that speaks of a missing symbol",
    r"\bwithout a word\b": "the kernel ends it without a word",
    r"\bas bad\b|\bis well\b": "a warning where it is as bad",
    r"\bwhose it is\b|\bby whom\b|\bwho holds it\b": "this container cannot see by whom",
    r"\bleads? nowhere\b|\bis nowhere\b": "the link leads nowhere",
    r"\bthe job's script\b": "put the line into the job's script",
    r"\b(private|sick) machine\b": "Build a sick machine, check it, fix it",
    r"\bwhat to type\b|\bto be typed\b": "what to type stands above",
    r"\btake (\S+ ){1,3}away\b": "take the folder away",
    r"\b(user|users|process|root) may not\b": "this user may not read it",
    r"(recogn|initial|organ|optim|synchron)is(e|ing|ation)": "a failure that is not recognised",
    r"\b(colour|behaviour|neighbour)s?\b": "colour words",
}
# Code, output and addresses are quoted as they are.
NOT_PROSE = re.compile(r"^```.*?^```|`[^`]*`|^ {4,}[^\n]*$|https?://\S+", re.MULTILINE | re.DOTALL)


def sentences(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """The file of each text, and the text."""
    for domain in ("npudoctor", "manuals"):
        for message in messages.extract(root, domain).values():
            for text in filter(None, (message.msgid, message.plural)):
                yield min(message.files), NOT_PROSE.sub("", text)
    for table in sorted((root / "src/npudoctor/knowledge").rglob("*.toml")):
        for text in in_english(tomllib.loads(table.read_text(encoding="utf-8"))):
            yield table.relative_to(root).as_posix(), text
    for page in documents(root):
        yield page.relative_to(root).as_posix(), NOT_PROSE.sub("", page.read_text(encoding="utf-8"))


def documents(root: Path = ROOT) -> list[Path]:
    """The pages in English but the CHANGELOG, which is history."""
    pages = (*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("integrations/**/*.md"))
    return sorted(page for page in pages if not page.name.endswith(".zh.md") and page.name != "CHANGELOG.md")


def in_english(value: Any) -> Iterator[str]:
    """Every text of a table that stands there in two languages."""
    if isinstance(value, dict) and set(value) == {"en", "zh"}:
        yield from [value["en"]] if isinstance(value["en"], str) else value["en"]
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from in_english(part)


def complaints(texts: list[tuple[str, str]]) -> Iterator[str]:
    """One line for each form: the file, what was found, and the words around it."""
    for place, text in texts:
        # A manual is wrapped: a form may stand on two lines.
        flat = re.sub(r"\s+", " ", text)
        for form in FORBIDDEN:
            for match in re.finditer(form, flat):
                around = flat[max(0, match.start() - 50) : match.end() + 40]
                yield f"{place}: {match.group()!r} must be read twice, say it plainly: ...{around}..."


def main() -> int:
    found = sorted(set(complaints(list(sentences()))))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
