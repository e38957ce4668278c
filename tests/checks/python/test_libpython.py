"""libpython: the cache server finds Python's shared library, as the loader would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from tests.elves import cache, library

from npudoctor import Severity, Status
from npudoctor.checks.python.libpython import libpython
from npudoctor.testing import Asked, Content, ask, fake_host, unreadable

ENV = "/opt/env"
SITE = f"{ENV}/lib/python3.11/site-packages"
SERVER = f"{SITE}/mindspore/utils/bin/dataset-cache-server"
LOADER = "/lib64/ld-linux-x86-64.so.2"
NAME = "libpython3.11.so.1.0"


def machine(name: str = NAME, shared: bool = True) -> dict[str, Content]:
    """An environment of its own; its Python knows where its shared library is."""
    needed = [NAME] if shared else []
    files: dict[str, Content] = {
        f"{ENV}/bin/python3": library(*needed, rpath="$ORIGIN/../lib", interpreter=LOADER),
        f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so": library(),
        SERVER: library(name, rpath="$ORIGIN:$ORIGIN/../lib", interpreter=LOADER),
    }
    if shared:
        files[f"{ENV}/lib/{NAME}"] = library(soname=NAME)
    return files


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What libpython says of it."""
    host = fake_host(files, variables=variables, python=f"{ENV}/bin/python3", search_path=(SITE,), **more)
    return ask(libpython, host)


def scene(tmp: Path) -> Iterator[Asked]:
    """All that libpython can say."""
    yield judge({})
    yield judge(machine())
    yield judge(machine(shared=False))
    yield judge(machine("libpython3.7m.so.1.0"))


USED = {"MS_CACHE_PORT": "50052"}


def test_quiet_when_it_is_found() -> None:
    asked = judge(machine(), {"LD_LIBRARY_PATH": f"{ENV}/lib"})
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"program": SERVER, "wanted": NAME, "library": f"{ENV}/lib/{NAME}"}
    known: dict[str, Content] = {
        "/etc/ld.so.cache": cache({NAME: f"/usr/local/lib/{NAME}"}),
        f"/usr/local/lib/{NAME}": library(),
    }
    assert judge({**machine(), **known}, {}).codes == []


def test_not_found() -> None:
    (finding,) = judge(machine(), USED).findings
    assert (finding.code, finding.severity) == ("libpython.not-found", Severity.WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={ENV}/lib",)
    assert finding.fix.undo == ("unset LD_LIBRARY_PATH",)
    assert judge(machine(), {}).findings[0].severity is Severity.INFO


def test_the_folder_is_appended() -> None:
    (finding,) = judge(machine(), {**USED, "LD_LIBRARY_PATH": "/a:/b"}).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH=/a:/b:{ENV}/lib",)
    assert finding.fix.undo == ("export LD_LIBRARY_PATH=/a:/b",)


def test_a_python_without_a_shared_library() -> None:
    (finding,) = judge(machine(shared=False), USED).findings
    assert (finding.code, finding.fix) == ("libpython.not-found", None)
    assert "without its shared library" in finding.message


def test_another_python() -> None:
    (finding,) = judge(machine("libpython3.7m.so.1.0"), USED).findings
    assert (finding.code, finding.fix) == ("libpython.other-version", None)
    assert "libpython3.7m.so.1.0" in finding.message


def test_skipped_and_cannot_tell() -> None:
    assert judge({}).status is Status.SKIPPED
    without = {path: content for path, content in machine().items() if path != SERVER}
    assert judge(without).status is Status.SKIPPED
    assert judge({**machine(), SERVER: unreadable()}).status is Status.UNKNOWN
    assert judge(machine(), root="/image").status is Status.SKIPPED
