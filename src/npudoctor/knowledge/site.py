"""The tables together with rows of a site, which are read from trusted files in one directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.core.trust.paths import read_trusted
from npudoctor.knowledge.tables import (
    KnowledgeRow,
    built_in_rows,
    list_tables,
    load_table,
    parse_toml,
    read_table,
)

SITE = "/etc/npudoctor/knowledge.d"  # NPUDOCTOR_KNOWLEDGE_DIR replaces it; empty means none
# What every row of a site may say besides the keys of our own rows. `compatible = false` forbids a pair.
_ALWAYS = ("source", "as_of", "compatible")
# The keys of a file that has signatures: rows, and what all of them share.
_SIGNATURES = ("signature", "source", "as_of")
# A site may not add rows here: they say how a library parses a variable, or what a number means.
_CLOSED = ("hccl_variables", "log_variables", "nccl_variables", "paddle_flags", "return_numbers", "variables")
# Keys that all our rows have but a row of a site may leave out, as no judgement needs them.
_OPTIONAL = {
    "frameworks.trainers": ("after", "tried"),
    "paddle_npu.cann": ("chip",),
    "vllm_ascend.releases": ("vllm", "torch", "torch_npu", "triton_ascend", "python"),
}
# What must be a range (PEP 440), as `>=1.5,<2`, and what a release: nothing else could be compared.
_RANGES = {
    "cann_packages.packages": ("specifier",),
    "cann_packages.numpy": ("specifier",),
    "cann_python.python": ("python",),
    "mindspore.scipy": ("versions", "scipy"),
    "requirements.fails": ("versions",),
    "requirements.lenient": ("versions",),
    "requirements.needs": ("versions",),
    "torch_npu.numpy": ("versions", "numpy"),
    "torch_npu.python": ("torch_npu",),
    "vllm_ascend.releases": ("python",),
}
# What is a requirement, with the name of the package: `numpy<2`.
_REQUIREMENTS = {"requirements.fails": ("beside",), "requirements.needs": ("requires",)}
_RELEASES = {
    "cann_packages.numpy": ("below",),
    "mindspore.cann": ("mindspore",),
    "mindspore.cann_component_versions": ("mindspore",),
    "mindspore.python": ("mindspore", "python"),
    "torch_npu.cann": ("torch_npu", "torch"),
    "torch_npu.python": ("torch", "python"),
    "vllm_ascend.pypi": ("triton_ascend",),
    "vllm_ascend.releases": ("vllm_ascend", "vllm", "torch", "torch_npu", "triton_ascend"),
}
# What the job's Python is to run: nothing but one import.
_STATEMENTS = {"frameworks.frameworks": ("imports",), "frameworks.trainers": ("imports",)}
_IMPORT = pattern(r"(?:import [\w.]+|from [\w.]+ import \w+(?:, \w+)*)\Z")


@dataclass(frozen=True)
class BrokenEntry:
    """A row or file of a site that cannot be used. `table`: None if it is the whole file."""

    path: str
    reason: str
    table: Optional[str] = None


class Knowledge:
    """Our tables with the rows of a site: trusted files of one directory, read once and together.

    What is wrong there is kept as Broken, and the rest is used. `remote` says why a path is not touched.
    """

    def __init__(
        self, directory: str = "", remote: Callable[[str], Optional[str]] = lambda path: None
    ) -> None:
        self.directory = os.path.abspath(directory) if directory else ""
        self._why_remote = remote
        self._lock = threading.Lock()
        self._site: Optional[dict[tuple[str, str], list[KnowledgeRow]]] = None
        self._broken: list[BrokenEntry] = []
        self._signatures: list[tuple[str, dict[str, Any]]] = []

    def rows(self, name: str, section: str) -> list[KnowledgeRow]:
        """The rows of a section: first the site's, then ours."""
        site = self._load_once().get((name, section), [])
        return [*site, *built_in_rows(name, section)]

    def may_mention(self, name: str, words: Iterable[str]) -> bool:
        """Whether a row of a table may have one of these words as a value.

        Asked where most machines have none of what the table lists: to parse it takes longer than the rest.
        """
        if any(table == name for table, _section in self._load_once()):
            return True
        text = read_table(name)
        return any(f'"{word}"' in text for word in words)

    def broken(self, name: Optional[str] = None) -> list[BrokenEntry]:
        """Entries that cannot be used; with `name` only those that may have been rows of this table."""
        self._load_once()
        return [broken for broken in self._broken if name is None or broken.table in (None, name)]

    def site_rows(self) -> dict[tuple[str, str], list[KnowledgeRow]]:
        """The site's rows by table and section."""
        return self._load_once()

    def signature_files(self) -> list[tuple[str, dict[str, Any]]]:
        """What the site's files say of signatures of failures, which `explain` judges itself."""
        self._load_once()
        return self._signatures

    def _load_once(self) -> dict[tuple[str, str], list[KnowledgeRow]]:
        """The site's rows by table and section; its files are read when they are first asked for."""
        with self._lock:
            if self._site is None:
                self._site = {}
                if self.directory:
                    self._load_files(self._site)
            return self._site

    def _load_files(self, site: dict[tuple[str, str], list[KnowledgeRow]]) -> None:
        reason, file_names = self._why_remote(self.directory), []
        try:
            file_names = [] if reason else sorted(os.listdir(self.directory))
        # Most sites have no rows of their own.
        except FileNotFoundError:
            pass
        except OSError as error:
            reason = _("{path} cannot be read: {why}", path=self.directory, why=strerror(error.errno))
        if reason:
            self._broken.append(BrokenEntry(self.directory, reason))
        for path in [os.path.join(self.directory, name) for name in file_names if name.endswith(".toml")]:
            reason = self._why_remote(path)
            content, distrust = (None, reason) if reason else read_trusted(path, os.geteuid())
            if content is None:
                self._broken.append(BrokenEntry(path, distrust or ""))
                continue
            try:
                document = parse_toml(content.decode())
            except (ValueError, RecursionError) as error:
                self._broken.append(BrokenEntry(path, str(error)))
                continue
            if "signature" in document:
                signatures = {key: document.pop(key) for key in _SIGNATURES if key in document}
                self._signatures.append((path, signatures))
            for name, sections in document.items():
                self._add_rows(site, path, name, sections)

    def _add_rows(
        self, site: dict[tuple[str, str], list[KnowledgeRow]], path: str, name: str, sections: object
    ) -> None:
        """The rows of one table in a file; what does not look as our own rows do is broken."""
        known_tables = [table for table in list_tables() if table not in _CLOSED]
        if name not in known_tables:
            self._broken.append(
                BrokenEntry(
                    path,
                    _(
                        "there is no table {name}; the tables are {names}",
                        name=name,
                        names=", ".join(known_tables),
                    ),
                )
            )
            return
        for section, row, problem in _read_rows(name, sections):
            if problem:
                self._broken.append(BrokenEntry(path, problem, name))
            else:
                site.setdefault((name, section), []).append(KnowledgeRow(row, path))


def _read_rows(name: str, sections: object) -> Iterator[tuple[str, dict[str, Any], Optional[str]]]:
    """Section, row, and what is wrong with it."""
    ours = {key: rows for key, rows in load_table(name).items() if isinstance(rows, list)}
    for section, rows in sections.items() if isinstance(sections, dict) else [("", sections)]:
        where = f"{name}.{section}".rstrip(".")
        if section not in ours:
            yield (
                section,
                {},
                _(
                    "{where}: there is no such section; the sections are {names}",
                    where=where,
                    names=", ".join(ours),
                ),
            )
        elif not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            yield section, {}, _("{where}: not a list of rows", where=where)
        else:
            yield from ((section, row, _find_problem(where, row, ours[section])) for row in rows)


def _find_problem(where: str, row: dict[str, Any], ours: Sequence[dict[str, Any]]) -> Optional[str]:
    """What is wrong with a row: a key that ours all have is missing, one that none has, another type."""
    for key in row:
        if key not in _ALWAYS and not any(key in other for other in ours):
            return _("{where}: unknown key {key}", where=where, key=key)
    for key in ours[0]:
        if key not in (*row, *_OPTIONAL.get(where, ())) and all(key in other for other in ours):
            return _("{where}: a row lacks {key}", where=where, key=key)
    for key, value in row.items():
        kinds = {type(other[key]) for other in ours if key in other}
        if bool in kinds or key == "compatible":
            if not isinstance(value, bool):
                return _("{where}: {key} must be true or false", where=where, key=key)
            continue
        values = value if isinstance(value, list) and list in kinds else [value]
        if not values or not all(isinstance(text, str) for text in values):
            return _("{where}: {key} is not a string", where=where, key=key)
        for text in values:
            if key in _STATEMENTS.get(where, ()) and not _IMPORT.match(text):
                return _("{where}: {key} has no import statement: {value}", where=where, key=key, value=text)
            if not _is_comparable(where, key, text):
                return _(
                    "{where}: {key} cannot be compared with a version: {value}",
                    where=where,
                    key=key,
                    value=text,
                )
    return None


def _is_comparable(where: str, key: str, text: str) -> bool:
    """Whether a text is the range or the release that it has to be; all other texts are."""
    tables: Sequence[Mapping[str, Sequence[str]]] = (_RANGES, _REQUIREMENTS, _RELEASES)
    kind = next((kind for kind, table in enumerate(tables) if key in table.get(where, ())), None)
    if kind is None:
        return True
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    parsers: tuple[Callable[[str], object], ...] = (SpecifierSet, Requirement, Version)
    try:
        parsers[kind](text)
    except (InvalidSpecifier, InvalidRequirement, InvalidVersion):
        return False
    return True
