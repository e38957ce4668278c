"""Extracts reports from files, directories, streams with prefixes, Ansible's output and login noise.

One text at a time is held. Text that is not a report is skipped; a damaged report becomes an
`UnreadableReport` and is never dropped silently.
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
from npudoctor.fleet.gathering import NodeAnswer

REPORT, FLEET = "npudoctor.report/1", "npudoctor.fleet/1"
LONGEST = 32 << 20  # bytes of one report; a real one has about 60 KB
HELD = 256 << 20  # characters of all unfinished reports together
TRIES = 4  # attempts to parse a text before it must double: most reports end at their first closing brace
READING = 30.0  # seconds to read one file
SILENCE = 300.0  # seconds without data after which a pipe is given up
GATHERING = 3600.0  # seconds for all that many nodes write into one pipe
DEEPEST = 40  # levels of nesting around a report; Ansible's output has eight
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".log", ".out", ".txt", ".gz")

# `3: {` (srun -l), `node3: {` (pdsh, clush), `[pod/x/y] {` (kubectl), `node3 | {`: a prefix on every line.
_PREFIX = pattern(r"(\[[^\]\n]{1,300}\] ?|[\w.-]{1,253}: ?|[\w.-]{1,253} \| )(?=[\s{}])")
# `ok: [node1] => {`, `node1 | SUCCESS => {`, `node1 | UNREACHABLE! => {` (Ansible): a name in the first line.
_ANSIBLE = pattern(r"(?:[a-z]+: \[([^\]\s]{1,253})[^\]\n]*\].{0,40}|([\w.-]{1,253}) \| [A-Z!]+ ?)=> ?(?=\{)")
_NAME = pattern(r'"name":\s*"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})"')
_POD = pattern(r"\[?(?:pod/)?([^/\]\s]+)")


@dataclass(frozen=True)
class ReceivedReport:
    """One report as received. `source`: the file, "-" for standard input, or the node.

    `node`: the node that was asked, when known for sure; it takes precedence over the name in the report.
    `ahead`: by how many seconds, at least, its clock is ahead of ours; negative: behind; None: unknown.
    """

    report: dict[str, Any]
    source: str
    node: Optional[str] = None
    ahead: Optional[float] = None


@dataclass(frozen=True)
class UnreadableReport:
    """A damaged report, or a node that could not be reached. `node`: None when it is unknown which."""

    node: Optional[str]
    source: str
    error: str
    unreachable: bool = False


Item = Union[ReceivedReport, UnreadableReport]


def read_reports(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Item]:
    """Yield every report in these files and directories; "-" is standard input."""
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
        yield from read_stream(_read_lines(source), "-")
    finally:
        source.close()
    if source.problem:
        yield UnreadableReport(None, "-", source.problem)


def _read_file(path: str) -> Iterator[Item]:
    last: Optional[Item] = None
    until = time.monotonic() + READING
    try:
        source = _open_pipe(path) or sources.open_source(path, until)
    except (OSError, opening.UnreadableLog) as error:
        why = strerror(error.errno) if isinstance(error, OSError) else str(error)
        yield UnreadableReport(None, path, why)
        return
    try:
        for last in read_stream(_read_lines(source), path):
            yield last
    finally:
        source.close()
    # When the last item is unreadable, it already says that the end is missing.
    if last is None or (source.problem and isinstance(last, ReceivedReport)):
        yield UnreadableReport(None, path, source.problem or _("contains no report"))


def _open_pipe(path: str) -> Optional[sources.Source]:
    """Open a pipe of a shell's `<(...)`: `npudoctor fleet report <(ssh node npudoctor check --format json)`.

    None when the path is not such a pipe.
    """
    number = path.rpartition("/")[2]
    if not path.startswith(("/dev/fd/", "/proc/self/fd/")) or not number.isdecimal():
        return None
    descriptor = os.dup(int(number))
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return sources.Source(path, descriptor, patience=SILENCE, until=time.monotonic() + GATHERING)


def _read_lines(source: sources.Source) -> Iterator[bytes]:
    """Yield the lines of a source. A line longer than LONGEST ends it and sets the source's `problem`."""
    pending: list[bytes] = []
    for piece in source.pieces():
        # A sparse file yields gigabytes of NUL bytes, as logs do after a truncate: two bytes stand for the
        # piece.
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
    """Yield every report in a stream of lines. `source`: how the stream is named in errors."""
    held = 0  # characters added since the last full count
    texts: dict[
        str, _PartialDocument
    ] = {}  # by prefix: srun and kubectl interleave the lines of several nodes
    for line in _decode_lines(stream):
        prefix, name, body = _split_prefix(line, texts)
        text = texts.get(prefix)
        if text is not None and body.startswith("{"):  # a new document, and the last one never ended
            yield from texts.pop(prefix).end_early(source)
            text = None
        if text is None and body.startswith("{"):
            text = texts[prefix] = _PartialDocument(name)
        if text is None:
            continue
        text.add(body)
        held += len(body)
        if text.size > LONGEST:
            yield from texts.pop(prefix).end_early(source)
        elif (
            body.startswith("}") or (body.startswith("{") and body.rstrip().endswith("}"))
        ) and text.is_due():
            yield from _take_complete(texts, prefix, source)
        if held > HELD:  # more unfinished reports than any real cluster sends at once
            if texts:
                largest = max(texts, key=lambda prefix: texts[prefix].size)
                yield from texts.pop(largest).end_early(source)
            held = sum(text.size for text in texts.values())
    for prefix in list(texts):
        yield from _take_complete(texts, prefix, source)
    for text in texts.values():
        yield from text.end_early(source)


def _take_complete(texts: dict[str, _PartialDocument], prefix: str, source: str) -> Iterator[Item]:
    """Yield the reports that the last line completed; the text after them begins the next document."""
    text = texts[prefix]
    documents, rest = text.documents()
    if documents:
        del texts[prefix]
        for document in documents:
            yield from find_reports(document, source, text.name)
        if rest:
            texts[prefix] = _PartialDocument(text.name)
            texts[prefix].add(rest)


def _decode_lines(stream: Iterable[bytes]) -> Iterator[str]:
    readline = getattr(stream, "readline", None)
    # A bound, as readline() without one would read a line of any length into memory.
    chunks = iter(lambda: readline(LONGEST + 1), b"") if readline else iter(stream)
    for chunk in chunks:
        yield chunk.decode("utf-8", "replace").lstrip("\ufeff")


def _split_prefix(line: str, texts: dict[str, _PartialDocument]) -> tuple[str, Optional[str], str]:
    """Split a line into the prefix that identifies its writer, the node's name (None if absent), and the
    rest."""
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


class _PartialDocument:
    """The lines of one unfinished document. `name`: the node's name in the prefix, None when there is
    none."""

    def __init__(self, name: Optional[str]) -> None:
        self.name = name
        self.size = 0
        self._lines: list[str] = []
        self._tries, self._next = 0, 0

    def add(self, line: str) -> None:
        self.size += len(line)
        self._lines.append(line)

    def is_due(self) -> bool:
        """Whether to try to parse it. After TRIES failures only once its size has doubled: a document that
        never ends, with a brace in each line, would otherwise take quadratic time."""
        return self._tries < TRIES or self.size >= self._next

    def documents(self) -> tuple[list[object], str]:
        """Parse the complete documents at the start of the text; returns them and the text after them."""
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
        position = 0
        while position < len(text) and text[position] == "{":
            try:
                document, end = next_json(text, position)
            except ValueError:
                return documents, text[position:]
            documents.append(document)
            position = end
            while position < len(text) and text[position].isspace():
                position += 1
        return documents, ""

    def end_early(self, source: str) -> Iterator[Item]:
        """Yield an UnreadableReport when the text is a report that was cut short; nothing when it is
        noise."""
        text = "".join(self._lines)
        if "npudoctor." not in text[:4096] and '"schema"' not in text[:4096]:
            return
        host = text.find('"host"')
        match = _NAME.search(text, host, host + 400) if host >= 0 else None
        yield UnreadableReport(
            match[1] if match else self.name, source, _("the report is cut short or is not JSON")
        )


def find_reports(document: object, source: str, name: Optional[str], depth: int = 0) -> Iterator[Item]:
    """Yield the reports in a document: itself, those in Ansible's results, or those in a merged report."""
    if depth > DEEPEST:
        return
    if isinstance(document, list):
        for part in document:
            yield from find_reports(part, source, name, depth + 1)
    elif isinstance(document, dict) and document.get("schema") == FLEET:
        yield from _reports_in_fleet(document, source, depth)
    elif isinstance(document, dict):
        yield from _reports_in_table(document, source, name, depth)


def parse_report_answer(answer: NodeAnswer) -> Item:
    """The report in a node's answer, or an UnreadableReport that says why there is none."""
    try:
        document = None if answer.text is None else json_of(answer.text)
    except ValueError:
        document = None
    for item in find_reports(document, answer.node, answer.node):
        if isinstance(item, ReceivedReport):
            return ReceivedReport(item.report, answer.node, answer.node, answer.ahead)
        return item
    return UnreadableReport(answer.node, answer.node, answer.why, unreachable=not answer.reached)


def _reports_in_table(
    document: dict[str, Any], source: str, name: Optional[str], depth: int
) -> Iterator[Item]:
    schema = document.get("schema")
    if schema == REPORT:
        yield ReceivedReport(document, source)
    elif isinstance(schema, str) and schema.startswith("npudoctor."):
        host = document.get("host")
        host_name = host.get("name") if isinstance(host, dict) else None
        yield UnreadableReport(
            host_name if isinstance(host_name, str) and host_name else name,
            source,
            _("schema {schema} is not {known}", schema=schema[:80], known=REPORT),
        )
    elif isinstance(document.get("node"), str) and isinstance(document.get("error"), str):
        unreachable = document.get("unreachable") is True
        yield UnreadableReport(document["node"], source, document["error"][:500], unreachable)
    elif isinstance(document.get("node"), str) and isinstance(document.get("report"), dict):
        for item in find_reports(document["report"], source, document["node"], depth + 1):
            yield (
                ReceivedReport(item.report, source, document["node"])
                if isinstance(item, ReceivedReport)
                else item
            )
    elif document.get("unreachable") is True:
        why = document.get("msg")
        yield UnreadableReport(name, source, why[:500] if isinstance(why, str) else _("unreachable"), True)
    elif isinstance(document.get("stdout"), str):
        # Ansible's registered output. Its name for the host is used only when the output holds no report.
        items = list(
            read_stream(
                [line.encode("utf-8", "replace") for line in document["stdout"].splitlines(keepends=True)],
                source,
            )
        )
        yield from items or [UnreadableReport(name, source, _("contains no report"))]
    else:
        for key, part in document.items():
            if isinstance(part, (dict, list)):
                # Below the top level the keys of Ansible's tables are host names, but for these two.
                inner_name = (
                    key if depth and isinstance(part, dict) and key not in ("hosts", "results") else name
                )
                yield from find_reports(part, source, inner_name, depth + 1)


def _reports_in_fleet(document: dict[str, Any], source: str, depth: int) -> Iterator[Item]:
    """Yield the reports in a merged document. Older versions of npudoctor wrote no node next to each
    report."""
    parts = document.get("reports")
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        node = part.get("node") if isinstance(part.get("node"), str) else None
        error = part.get("error")
        if part.get("schema") == REPORT:
            yield ReceivedReport({key: value for key, value in part.items() if key != "node"}, source, node)
        elif isinstance(error, str):  # of a node, or of a file whose node is unknown
            original_source = part.get("source")
            report_source = original_source if node is None and isinstance(original_source, str) else source
            yield UnreadableReport(node, report_source, error[:500], part.get("unreachable") is True)
        else:
            yield from _reports_in_table(part, source, node, depth + 1)
