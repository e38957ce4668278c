"""Draw the picture of the READMEs, docs/report.svg and docs/report.zh.svg: a real rehearsal on a terminal.

It runs `npudoctor rehearse`, which needs private namespaces, and keeps the check, the result of the fix and
the second check. The text in the picture is text, placed by terminal columns: Chinese stays aligned in any
font. `make lint` reads it back (tools/transcripts.py): a picture is stale when it shows messages that have
changed, or when this file would draw it in another way.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from npudoctor.render.columns import width

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {"docs/report.svg": "en", "docs/report.zh.svg": "zh"}
FAULT = "dead-cache-server"
COLUMNS = 80
# Pixels: of a column and a line of text, of the margin around it.
COLUMN, LINE, MARGIN = 8.4, 18, 16
SECONDS = 120  # a rehearsal takes 20
SVG = "{http://www.w3.org/2000/svg}"
CLASSES = {"1": "b", "31": "r", "32": "g", "33": "y", "36": "c"}
COLOUR = re.compile(r"\x1b\[([\d;]*)m")
PROMPT = "npudoctor rehearse: $ "
# No font is loaded: the reader's system has one of these. Light and dark differ in colours only.
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK SC",\
"PingFang SC","Microsoft YaHei",monospace;white-space:pre;fill:#1f2328}
rect{fill:#f6f8fa;stroke:#d0d7de}
.b{font-weight:bold}.r{fill:#cf222e}.g{fill:#1a7f37}.y{fill:#9a6700}.c{fill:#1b7c83}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}rect{fill:#161b22;stroke:#30363d}
.r{fill:#ff7b72}.g{fill:#3fb950}.y{fill:#d29922}.c{fill:#39c5cf}
}"""


class Run(NamedTuple):
    """Text of one look; `look` holds classes of STYLE, separated by blanks."""

    look: str
    text: str


Line = Sequence[Run]


def perform(language: str) -> str:
    """What a person sees on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NPUDOCTOR_")}
    for name in ("NO_COLOR", "COLUMNS"):
        variables.pop(name, None)
    variables.update(NPUDOCTOR_LANG=language, NPUDOCTOR_CHECKS_DIR="", TERM="xterm-256color", LANG="C.UTF-8")
    command = [sys.executable, "-m", "npudoctor", "rehearse", FAULT]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:  # so the kernel says that nobody has the terminal open any more
        pass
    os.close(ours)
    if process.wait(SECONDS):
        raise SystemExit(f"npudoctor rehearse {FAULT} failed:\n{said.decode()}")
    return said.decode()


def chosen(screen: str) -> Iterator[str]:
    """The lines that the picture shows: the commands, the reports, and what fix did, without its plan."""
    shown = plan = False
    for line in screen.replace("\r\n", "\n").rstrip("\n").split("\n"):
        line = line.rpartition("\r\x1b[K")[2]  # before it stood what is still awaited
        if line.startswith(PROMPT):
            line = line[len(PROMPT) - 2 :]
            shown, plan = True, " fix " in line
        elif line.startswith("npudoctor rehearse: "):
            shown = False
        plan = plan and not line.startswith("  \x1b[32m")
        if shown and (not plan or line.startswith("$ ")):
            yield line.rstrip()


def runs(line: str) -> Line:
    """A line of a terminal by its looks; a command stands out."""
    if line.startswith("$ "):
        return [Run("b", line)]
    # Text and codes in turn: a code is the look of what follows it.
    first, *rest = COLOUR.split(line)
    looks = (" ".join(CLASSES[code] for code in codes.split(";") if code in CLASSES) for codes in rest[::2])
    return [run for run in (Run("", first), *map(Run, looks, rest[1::2])) if run.text]


def draw(lines: Sequence[Line]) -> str:
    """The picture."""
    across, down = round(COLUMNS * COLUMN + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = (_row(line, MARGIN + LINE * number + 13) for number, line in enumerate(lines))
    size = f'viewBox="0 0 {across} {down}" width="{across}" height="{down}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">',
            f"<title>{escape(plain(lines[0]))}</title>",
            f"<style>{STYLE}</style>",
            f'<rect x=".5" y=".5" width="{across - 1}" height="{down - 1}" rx="8"/>',
            *rows,
            "</svg>\n",
        ]
    )


def _row(line: Line, y: int) -> str:
    """One line of text, in spans of wide characters and of others, each as wide as its columns."""
    spans, column = [], 0
    for look, text in line:
        for wide, characters in groupby(text, lambda character: width(character) == 2):
            piece = "".join(characters)
            kind = f' class="{look}"' if look else ""
            # A wide glyph is as high as it is wide: to stretch it would distort it, so it is larger.
            fit = ' font-size="16"' if wide else ' lengthAdjust="spacingAndGlyphs"'
            spans.append(
                f'<tspan x="{MARGIN + column * COLUMN:.1f}" textLength="{width(piece) * COLUMN:.1f}"'
                f"{fit}{kind}>{escape(piece)}</tspan>"
            )
            column += width(piece)
    return f'<text y="{y}">{"".join(spans)}</text>'


def read(picture: str) -> list[Line]:
    """The lines that a picture was drawn from."""
    lines: list[Line] = []
    for row in ET.fromstring(picture).iter(f"{SVG}text"):  # noqa: S314  (our own picture)
        spans = groupby(row, lambda span: span.get("class", ""))
        lines.append([Run(look, "".join(span.text or "" for span in part)) for look, part in spans])
    return lines


def plain(line: Line) -> str:
    """Its text."""
    return "".join(run.text for run in line)


def main() -> int:
    """Draw both."""
    for name, language in PICTURES.items():
        picture = draw([runs(line) for line in chosen(perform(language))])
        (ROOT / name).write_text(picture, encoding="utf-8")
        print(f"{name}: {len(picture.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
