"""Reports out of whatever carried them: files, folders, streams with prefixes, Ansible's output, login noise.

One text at a time is held. What is not a report of ours is passed over; what was meant to be one and cannot
be read is told as an `Unreadable`, never dropped.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.core.parsing import TooMuch, json_of, next_json
from npudoctor.explain.reading import opening, sources
from npudoctor.fleet.gathering import Answer

REPORT, FLEET = "npudoctor.report/1", "npudoctor.fleet/1"
LONGEST = 32 << 20  # bytes of one report; a real one has about 60 KB
HELD = 256 << 20  # characters of reports that have not ended, all together
TRIES = 4  # a line that begins with a brace ends most reports
READING = 30.0  # seconds for a file
SILENCE = 300.0  # seconds that a pipe may say nothing
GATHERING = 3600.0  # seconds for what many nodes say through a pipe
DEEPEST = 40  # of containers around a report; Ansible's have eight
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".log", ".out", ".txt", ".gz")

# `3: {`, `node3: {`, `[pod/x/y] {`, `node3 | {`: whoever gathered the lines says whose each is.
_PREFIX = pattern(r"(\[[^\]\n]{1,300}\] ?|[\w.-]{1,253}: ?|[\w.-]{1,253} \| )(?=[\s{}])")
# `ok: [node1] => {`, `node1 | SUCCESS => {`, `node1 | UNREACHABLE! => {`: only the first line tells the name.
_ANSIBLE = pattern(r"(?:[a-z]+: \[([^\]\s]{1,253})[^\]\n]*\].{0,40}|([\w.-]{1,253}) \| [A-Z!]+ ?)=> ?(?=\{)")
_NAME = pattern(r'"name":\s*"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})"')
_POD = pattern(r"\[?(?:pod/)?([^/\]\s]+)")


@dataclass(frozen=True)
class Found:
    """One report as it came. `source`: the file, "-", or the node.

    `node`: who was asked, where that is known for sure, whatever the report calls itself. `ahead`: how many
    seconds its clock is at least ahead of ours, or behind; None where nobody knows.
    """

    report: dict[str, Any]
    source: str
    node: Optional[str] = None
    ahead: Optional[float] = None


@dataclass(frozen=True)
class Unreadable:
    """What was meant to be a report, or a node that its carrier could not reach.

    `node` None: nobody knows whose it is.
    """

    node: Optional[str]
    source: str
    error: str
    unreachable: bool = False


Item = Union[Found, Unreadable]


def read(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Item]:
    """Every report of these files and folders, "-" for standard input."""
    for path in paths:
        if path == "-":
            yield from _read_stdin(stdin)
        elif os.path.isdir(path):
            for top, folders, names in os.walk(path):
                folders.sort()
                for file in (os.path.join(top, name) for name in sorted(names)):
                    if file.endswith(_SUFFIXES) and os.path.isfile(file):
                        yield from _read_file(file)
        else:
            yield from _read_file(path)


def _read_stdin(stdin: BinaryIO) -> Iterator[Item]:
    try:
        source = sources.Source("-", os.dup(stdin.fileno()), until=time.monotonic() + GATHERING)
    except OSError:  # it has no descriptor, or a closed one
        yield from read_stream(stdin, "-")
        return
    try:
        yield from read_stream(_lines_in(source), "-")
    finally:
        source.close()
    if source.problem:
        yield Unreadable(None, "-", source.problem)


def _read_file(path: str) -> Iterator[Item]:
    last: Optional[Item] = None
    until = time.monotonic() + READING
    try:
        source = _pipe(path) or sources.open_source(path, until)
    except (OSError, opening.UnreadableLog) as error:
        why = strerror(error.errno) if isinstance(error, OSError) else str(error)
        yield Unreadable(None, path, why)
        return
    try:
        for last in read_stream(_lines_in(source), path):
            yield last
    finally:
        source.close()
    if last is None or (source.problem and isinstance(last, Found)):  # else what was cut off is said already
        yield Unreadable(None, path, source.problem or _("contains no report"))


def _pipe(path: str) -> Optional[sources.Source]:
    """A pipe that we were given: `npudoctor fleet report <(ssh node npudoctor check --format json)`."""
    number = path.rpartition("/")[2]
    if not path.startswith(("/dev/fd/", "/proc/self/fd/")) or not number.isdecimal():
        return None
    descriptor = os.dup(int(number))
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return sources.Source(path, descriptor, patience=SILENCE, until=time.monotonic() + GATHERING)


def _lines_in(source: sources.Source) -> Iterator[bytes]:
    """The lines of a file; what is empty, as a hole is, takes no time. The source's `problem` tells of a line
    without an end."""
    pending: list[bytes] = []
    for piece in source.pieces():
        if not piece.strip(b"\0\r\n\t "):
            piece = piece[:1] + piece[-1:]
        for line in io.BytesIO(piece).readlines():
            if pending:
                line = b"".join((*pending, line))
                pending.clear()
            if line.endswith(b"\n"):
                yield line
                continue
            if len(line) > LONGEST:
                source.problem = _("a line is longer than {count} MiB", count=LONGEST >> 20)
                return
            pending.append(line)
    if pending:
        yield b"".join(pending)


def read_stream(stream: Iterable[bytes], source: str) -> Iterator[Item]:
    """Every report of a stream of lines."""
    held = 0  # characters that were added since all was counted
    texts: dict[str, _Text] = {}  # by prefix: srun and kubectl interleave the lines of several nodes
    for line in _lines(stream):
        prefix, name, body = _split(line, texts)
        text = texts.get(prefix)
        if text is not None and body.startswith("{"):  # a new one, while the last never ended
            yield from texts.pop(prefix).end_early(source)
            text = None
        if text is None and body.startswith("{"):
            text = texts[prefix] = _Text(name)
        if text is None:
            continue
        text.add(body)
        held += len(body)
        if text.size > LONGEST:
            yield from texts.pop(prefix).end_early(source)
        elif (
            body.startswith("}") or (body.startswith("{") and body.rstrip().endswith("}"))
        ) and text.is_due():
            yield from _complete(texts, prefix, source)
        if held > HELD:  # of more nodes at once than there are
            if texts:
                largest = max(texts, key=lambda prefix: texts[prefix].size)
                yield from texts.pop(largest).end_early(source)
            held = sum(text.size for text in texts.values())
    for prefix in list(texts):
        yield from _complete(texts, prefix, source)
    for text in texts.values():
        yield from text.end_early(source)


def _complete(texts: dict[str, _Text], prefix: str, source: str) -> Iterator[Item]:
    """The reports that this line completes; what stands behind them begins the next."""
    text = texts[prefix]
    documents, rest = text.documents()
    if documents:
        del texts[prefix]
        for document in documents:
            yield from find_reports(document, source, text.name)
        if rest:
            texts[prefix] = _Text(text.name)
            texts[prefix].add(rest)


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    readline = getattr(stream, "readline", None)
    chunks = iter(lambda: readline(LONGEST + 1), b"") if readline else iter(stream)
    for chunk in chunks:
        yield chunk.decode("utf-8", "replace").lstrip("\ufeff")


def _split(line: str, texts: dict[str, _Text]) -> tuple[str, Optional[str], str]:
    """The prefix that tells whose line it is, the node's name if it is in there, and the line itself."""
    if line[:1] in ("{", "}", " "):
        if line[:1] == " ":
            stripped = line.lstrip()  # `srun -l` pads the numbers of its tasks
            if not stripped[:1].isdigit() or "" in texts:
                return "", None, line
            line = stripped
        else:
            return "", None, line
    ansible = _ANSIBLE.match(line)
    if ansible:
        return "", ansible[1] or ansible[2], line[ansible.end() :]
    match = _PREFIX.match(line)
    if not match:
        return "", None, line
    prefix = match[1].rstrip()
    word = _POD.match(prefix.rstrip(" :|"))
    name = word[1] if word else None
    return prefix, None if name is None or name.isdigit() else name, line[match.end() :]


class _Text:
    """The lines of one document so far. `name`: of the node, as the carrier calls it."""

    def __init__(self, name: Optional[str]) -> None:
        self.name = name
        self.size = 0
        self._lines: list[str] = []
        self._tries, self._next = 0, 0

    def add(self, line: str) -> None:
        self.size += len(line)
        self._lines.append(line)

    def is_due(self) -> bool:
        """Whether to see if it is complete. After some tries in vain only when it has doubled: one that never
        ends, with a brace in each line, would be read again for each."""
        return self._tries < TRIES or self.size >= self._next

    def documents(self) -> tuple[list[object], str]:
        """What is complete, and what stands behind it."""
        self._tries, self._next = self._tries + 1, 2 * self.size
        text = "".join(self._lines)
        if len(self._lines) == 1 or text.rstrip().endswith("}"):
            try:
                return [json_of(text)], ""
            except TooMuch:
                return [], ""
            except ValueError:
                pass
        documents: list[object] = []
        at = 0
        while at < len(text) and text[at] == "{":
            try:
                document, end = next_json(text, at)
            except ValueError:
                return documents, text[at:]
            documents.append(document)
            at = end
            while at < len(text) and text[at].isspace():
                at += 1
        return documents, ""

    def end_early(self, source: str) -> Iterator[Item]:
        """It ends here. Noise is passed over; a report that was cut short is told."""
        text = "".join(self._lines)
        if "npudoctor." not in text[:4096] and '"schema"' not in text[:4096]:
            return
        host = text.find('"host"')
        match = _NAME.search(text, host, host + 400) if host >= 0 else None
        yield Unreadable(
            match[1] if match else self.name, source, _("the report is cut short or is not JSON")
        )


def find_reports(document: object, source: str, name: Optional[str], depth: int = 0) -> Iterator[Item]:
    """The reports in a document: itself, or what Ansible registered, or those of a merged one."""
    if depth > DEEPEST:
        return
    if isinstance(document, list):
        for part in document:
            yield from find_reports(part, source, name, depth + 1)
    elif isinstance(document, dict) and document.get("schema") == FLEET:
        yield from _in_fleet(document, source, depth)
    elif isinstance(document, dict):
        yield from _in_table(document, source, name, depth)


def report_in(answer: Answer) -> Item:
    """The report of a node that was asked for one, or why there is none."""
    try:
        document = None if answer.text is None else json_of(answer.text)
    except ValueError:
        document = None
    for item in find_reports(document, answer.node, answer.node):
        if isinstance(item, Found):
            return Found(item.report, answer.node, answer.node, answer.ahead)
        return item
    return Unreadable(answer.node, answer.node, answer.why, unreachable=not answer.reached)


def _in_table(document: dict[str, Any], source: str, name: Optional[str], depth: int) -> Iterator[Item]:
    schema = document.get("schema")
    if schema == REPORT:
        yield Found(document, source)
    elif isinstance(schema, str) and schema.startswith("npudoctor."):
        host = document.get("host")
        host_name = host.get("name") if isinstance(host, dict) else None
        yield Unreadable(
            host_name if isinstance(host_name, str) and host_name else name,
            source,
            _("schema {schema} is not {known}", schema=schema[:80], known=REPORT),
        )
    elif isinstance(document.get("node"), str) and isinstance(document.get("error"), str):
        unreachable = document.get("unreachable") is True
        yield Unreadable(document["node"], source, document["error"][:500], unreachable)
    elif isinstance(document.get("node"), str) and isinstance(document.get("report"), dict):
        for item in find_reports(document["report"], source, document["node"], depth + 1):
            yield Found(item.report, source, document["node"]) if isinstance(item, Found) else item
    elif document.get("unreachable") is True:
        why = document.get("msg")
        yield Unreadable(name, source, why[:500] if isinstance(why, str) else _("unreachable"), True)
    elif isinstance(document.get("stdout"), str):
        # A carrier that splits: the name it gives holds for what cannot be read.
        items = list(
            read_stream(
                [line.encode("utf-8", "replace") for line in document["stdout"].splitlines(keepends=True)],
                source,
            )
        )
        yield from items or [Unreadable(name, source, _("contains no report"))]
    else:
        for key, part in document.items():
            if isinstance(part, (dict, list)):
                inner = key if depth and isinstance(part, dict) and key not in ("hosts", "results") else name
                yield from find_reports(part, source, inner, depth + 1)


def _in_fleet(document: dict[str, Any], source: str, depth: int) -> Iterator[Item]:
    """What a merged document says of each node. One of an older npudoctor names no node beside its report."""
    parts = document.get("reports")
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        node = part.get("node") if isinstance(part.get("node"), str) else None
        error = part.get("error")
        if part.get("schema") == REPORT:
            yield Found({key: value for key, value in part.items() if key != "node"}, source, node)
        elif isinstance(error, str):  # also of a file, of which nobody knows whose report it was
            at = part.get("source")
            where = at if node is None and isinstance(at, str) else source
            yield Unreadable(node, where, error[:500], part.get("unreachable") is True)
        else:
            yield from _in_table(part, source, node, depth + 1)
