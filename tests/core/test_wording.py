"""English as a technical writer would sign it: the forms that a reader had to read twice do not come back.

Each form stands beside the sentence in which it was found, so that no pattern is one that matches nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polib
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
CATALOGUES = ROOT / "src/npudoctor/locale/zh_CN/LC_MESSAGES"
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
NOT_PROSE = re.compile(r"^```.*?^```|`[^`]*`|^ {4,}[^\n]*$|https?://\S+", re.MULTILINE | re.DOTALL)


def sentences() -> Iterator[tuple[str, str]]:
    """Where it stands, and the text: messages, manuals, signatures, documents."""
    for catalogue in sorted(CATALOGUES.glob("*.po")):
        for entry in polib.pofile(str(catalogue), encoding="utf-8"):
            yield catalogue.name, NOT_PROSE.sub("", entry.msgid)
            yield catalogue.name, entry.msgid_plural
    for table in sorted((ROOT / "src/npudoctor/knowledge").rglob("*.toml")):
        for text in english(tomllib.loads(table.read_text(encoding="utf-8"))):
            yield table.name, text
    for page in documents():
        yield page.relative_to(ROOT).as_posix(), NOT_PROSE.sub("", page.read_text(encoding="utf-8"))


def documents() -> list[Path]:
    pages = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("integrations/**/*.md"))
    return sorted(page for page in pages if not page.name.endswith(".zh.md") and page.name != "CHANGELOG.md")


def english(value: Any) -> Iterator[str]:
    """Every text of a table that stands there in two languages."""
    if isinstance(value, dict) and set(value) == {"en", "zh"}:
        yield from [value["en"]] if isinstance(value["en"], str) else value["en"]
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from english(part)


TEXTS = [(place, re.sub(r"\s+", " ", text)) for place, text in sentences()]


@pytest.mark.parametrize("form", FORBIDDEN)
def test_no_form_that_must_be_read_twice(form: str) -> None:
    assert re.search(form, FORBIDDEN[form])
    found = [(place, text[max(0, match.start() - 60) : match.end() + 40])
             for place, text in TEXTS for match in re.finditer(form, text)]  # fmt: skip
    assert found == []


def test_there_is_something_to_read() -> None:
    places = {place for place, _text in TEXTS}
    assert {"npudoctor.po", "manuals.po", "README.md", "docs/safety.md", "memory.toml"} <= places
    assert len(TEXTS) > 3000
