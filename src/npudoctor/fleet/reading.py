"""Reports out of whatever carried them: files, folders, streams with prefixes, Ansible's output, login noise.

One text at a time is held. What is not a report of ours is passed over; what was meant to be one and cannot
be read is told as an `Unreadable`, never dropped.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.fleet.gathering import Answer

REPORT, FLEET = "npudoctor.report/1", "npudoctor.fleet/1"
LONGEST = 32 << 20  # bytes of one report; a real one has about 60 KB
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
            yield from read_stream(stdin, "-")
        elif os.path.isdir(path):
            yield from _read_folder(path)
        else:
            yield from _read_file(path)


def _read_folder(folder: str) -> Iterator[Item]:
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if name.endswith(_SUFFIXES) and os.path.isfile(path):
                yield from _read_file(path)


def _read_file(path: str) -> Iterator[Item]:
    count = 0
    try:
        with open(path, "rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            stream: Any = gzip.GzipFile(fileobj=file) if packed else file
            for item in read_stream(stream, path):
                count += 1
                yield item
    except (OSError, EOFError, zlib.error) as error:
        why = strerror(error.errno) if isinstance(error, OSError) and error.errno else _("damaged gzip data")
        yield Unreadable(None, path, why)
        return
    if not count:
        yield Unreadable(None, path, _("holds no report"))


def read_stream(stream: Iterable[bytes], source: str) -> Iterator[Item]:
    """Every report of a stream of lines."""
    texts: dict[str, _Text] = {}  # by prefix: srun and kubectl interleave the lines of several nodes
    for line in _lines(stream):
        prefix, name, body = _split(line, texts)
        text = texts.get(prefix)
        if text is not None and body.startswith("{"):  # a new one, while the last never ended
            yield from texts.pop(prefix).abandoned(source)
            text = None
        if text is None and body.startswith("{"):
            text = texts[prefix] = _Text(name)
        if text is None:
            continue
        text.add(body)
        if text.size > LONGEST:
            yield from texts.pop(prefix).abandoned(source)
        elif _may_end(body):
            yield from _complete(texts, prefix, source)
    for text in texts.values():
        yield from text.abandoned(source)


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


def _may_end(line: str) -> bool:
    return line.startswith("}") or (line.startswith("{") and line.rstrip().endswith("}"))


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

    def add(self, line: str) -> None:
        self.size += len(line)
        self._lines.append(line)

    def documents(self) -> tuple[list[object], str]:
        """What is complete, and what stands behind it."""
        text = "".join(self._lines)
        if len(self._lines) == 1 or text.rstrip().endswith("}"):
            try:
                return [json.loads(text)], ""
            except (ValueError, RecursionError):
                pass
        return _decode(text)

    def abandoned(self, source: str) -> Iterator[Item]:
        """It ends here. Noise is passed over; a report that was cut short is told."""
        text = "".join(self._lines)
        if "npudoctor." not in text[:4096] and '"schema"' not in text[:4096]:
            return
        host = text.find('"host"')
        match = _NAME.search(text, host, host + 400) if host >= 0 else None
        yield Unreadable(
            match[1] if match else self.name, source, _("the report is cut short or is not JSON")
        )


def _decode(text: str) -> tuple[list[object], str]:
    documents: list[object] = []
    at, decoder = 0, json.JSONDecoder()
    while at < len(text) and text[at] == "{":
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return documents, text[at:]
        documents.append(document)
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    return documents, ""


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
        document = None if answer.text is None else json.loads(answer.text)
    except (ValueError, RecursionError):
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
        yield Unreadable(
            _host_name(document) or name,
            source,
            _("schema {schema} is not {known}").format(schema=schema[:80], known=REPORT),
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
        yield from items or [Unreadable(name, source, _("holds no report"))]
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


def _host_name(document: dict[str, Any]) -> Optional[str]:
    host = document.get("host")
    name = host.get("name") if isinstance(host, dict) else None
    return name if isinstance(name, str) and name else None
