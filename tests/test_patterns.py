"""No text of others may hold the interpreter lock for long: it would hold every deadline too."""

from __future__ import annotations

import ast
import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

from npudoctor.checks.python import mindspore_cann, paddle_cpu
from npudoctor.checks.python import setuptools as setuptools_check
from npudoctor.core import cann_version, driver_version, mounts, ports
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann import nnal
from npudoctor.facts.cann import python_packages as cann_python
from npudoctor.facts.job import input_cleanup
from npudoctor.host import system
from npudoctor.host.devices import cann_info
from npudoctor.host.libraries import ldcache
from npudoctor.host.network import sockets
from npudoctor.host.process import examined_variables, processes, sysvipc
from npudoctor.host.python import interpreter, metadata, requirements
from npudoctor.host.python.interpreter import Distribution, Layout
from npudoctor.registry import entrypoints

ROOT = Path(__file__).resolve().parent.parent
SIZE = 1 << 20
LAYOUT = Layout((), "3.11.7", "x86_64", True)


def _required(text: str) -> object:
    return requirements.read_requirement(
        Distribution("x", "1", "/x", (("requires-dist", text),)), "torch", LAYOUT
    )


PARSERS: dict[str, Callable[[str], object]] = {
    "settings": cann_info.parse_settings,
    "running": cann_info.parse_running_versions,
    "told_version": cann_python.parse_version,
    "told_release": nnal.parse_release,
    "order": cann_version.sort_key,
    "train": cann_version.train,
    "accepts": lambda text: cann_version.accepts(text, "7.7"),
    "accepted": lambda text: cann_version.accepts(">=7.7", text),
    "key": driver_version.sort_key,
    "groups": driver_version.bracket_groups,
    "within": lambda text: driver_version.accepts("7.7", text),
    "parse_headers": metadata.parse_headers,
    "egg": lambda text: list(metadata._parse_requirements(text)),
    "normal": interpreter.normalize_name,
    "required": _required,
    "parse_environ": lambda text: examined_variables.parse_environ(text.encode()),
    "parse_cache": lambda text: ldcache.parse_cache(text.encode(), "x86_64"),
    "parse_mountinfo": mounts.parse_mountinfo,
    "as_meant": input_cleanup.clean_up,
    "parse_spans": ports.parse_spans,
    "parse_maps": processes.parse_maps,
    "parse_unix": sockets.parse_unix,
    "parse_tcp": sockets.parse_tcp,
    "os_release_name": system.os_release_name,
    "parse_segments": sysvipc.parse_segments,
    "entry points": entrypoints.parse_entry_points,
    "parse_own_list": mindspore_cann.parse_own_list,
    "read_machine": paddle_cpu.read_machine,
    "find_import": setuptools_check.find_import,
}
PLAIN = ("\n", " ", "[", "=")
UNITS = (
    *("\t\n", "]", "1", "1.", "a\n b\n", "a:b\n", "x_running_version=[\n", "version\n"),
    *("Ascend-cann-atb\n", "class AscendEnvChecker(\n", "self.version = [", "Tag: linux", "_running_version"),
    *("torch (", "a b c d 1 ", '"', "(", "import pkg_resources ", "a: b\n c\n"),
)
SLOW = re.compile(r"\^\\s[*+]|\\s[*+]\$")


@pytest.mark.parametrize("name", PARSERS)
def test_a_megabyte_of_anything_is_read_at_once(name: str) -> None:
    for unit in (*PLAIN, *UNITS):
        count = (SIZE if unit in PLAIN else SIZE >> 3) // len(unit)
        started = time.thread_time()
        with contextlib.suppress(CannotTell, ValueError):  # what makes no sense may be refused
            PARSERS[name](unit * count)
        with contextlib.suppress(CannotTell, ValueError):
            PARSERS[name]("torch" + unit * (count >> 3))
        assert time.thread_time() - started < 2, unit


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("folder", ["src", "checks"])
def test_no_pattern_lets_blanks_run_over_lines(folder: str) -> None:
    """`^` of MULTILINE matches at each of many empty lines, and from each `\\s*` runs to the end."""
    found = [(path, text) for path in (ROOT / folder).rglob("*.py") for text in _texts(path)]
    assert len(found) > 1000
    assert [(path, text) for path, text in found if SLOW.search(text)] == []
    assert SLOW.search(r"^\s*version") and SLOW.search(r"x\s*$") and not SLOW.search(r"^[ \t]*version")
