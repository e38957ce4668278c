"""protobuf-implementation: the extension module that a variable asks for is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.protobuf_implementation import VARIABLE, protobuf_implementation
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

OLD: dict[str, Content] = {
    **package_files("protobuf", "3.20.3"),
    f"{SITE}/google/protobuf/pyext/_message.cpython-311-x86_64-linux-gnu.so": "",
}
NEW: dict[str, Content] = {
    **package_files("protobuf", "6.31.0"),
    f"{SITE}/google/protobuf/pyext/cpp_message.py": "",
    f"{SITE}/google/_upb/_message.abi3.so": "",
}


def told(files: dict[str, Content], value: str) -> Asked:
    return ask(protobuf_implementation, fake_host(files, variables={VARIABLE: value}))


@pytest.mark.parametrize(("files", "value"), [(OLD, "cpp"), (NEW, "upb")])
def test_quiet_when_well(files: dict[str, Content], value: str) -> None:
    assert (told(files, value).status, told(files, value).codes) == (Status.OK, [])


@pytest.mark.parametrize(("files", "value"), [(NEW, "cpp"), (OLD, "upb")])
def test_what_it_does_not_have(files: dict[str, Content], value: str) -> None:
    (finding,) = told(files, value).findings
    assert (finding.code, finding.severity) == ("protobuf-implementation.not-there", Severity.ERROR)
    assert f"{VARIABLE} is {value}" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"unset {VARIABLE}",)


@pytest.mark.parametrize(("files", "value"), [(NEW, "python"), (NEW, ""), ({}, "cpp")])
def test_skipped_where_nothing_could_be_missing(files: dict[str, Content], value: str) -> None:
    assert told(files, value).status is Status.SKIPPED


def test_skipped_where_the_variable_is_not_set() -> None:
    assert ask(protobuf_implementation, fake_host(NEW)).status is Status.SKIPPED


def test_a_folder_that_cannot_be_read_is_unknown() -> None:
    files = {**package_files("protobuf", "6.31.0"), f"{SITE}/google": unreadable()}
    assert told(files, "cpp").status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, each ending."""
    asking = {VARIABLE: "cpp"}
    yield ask(protobuf_implementation, fake_host())
    yield ask(protobuf_implementation, fake_host(variables=asking))
    yield ask(protobuf_implementation, fake_host(package_files("protobuf", "5.29.0"), variables=asking))
