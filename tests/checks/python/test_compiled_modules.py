"""Compiled modules of what frameworks and trainers require: conflicting-packages, loaded-libraries."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.python.conflicting_packages import conflicting_packages
from npudoctor.checks.python.framework_modules import framework_modules
from npudoctor.checks.python.loaded_libraries import loaded_libraries
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

DYNLOAD = "/usr/lib/python3.11/lib-dynload"
TAG = "cpython-311-x86_64-linux-gnu"
LIB = "/lib/x86_64-linux-gnu"
LIBC = library(soname="libc.so.6", defines=["GLIBC_2.2.5", "GLIBC_2.34"])
FIT = library("libc.so.6", wants={"libc.so.6": ["GLIBC_2.34"]})
ARM = library("libc.so.6", machine="aarch64")
SCRIPT = "/* GNU ld script */\nGROUP ( libc.so.6 )\n"
NEEDED = "from .tokenizers import Tokenizer\n"
GUARDED = "try:\n    from .tokenizers import Tokenizer\nexcept ImportError:\n    Tokenizer = None\n"


def trainer(
    modules: dict[str, Content], init: str = NEEDED, requires: str = "tokenizers"
) -> dict[str, Content]:
    """transformers with tokenizers, whose compiled modules these are."""
    paths = ["tokenizers/__init__.py", *(f"tokenizers/{name}" for name in modules)]
    record = "".join(f"{path},sha256=x,1\n" for path in paths)
    return {
        "/usr/bin/python3.11": library("libc.so.6", interpreter="/lib64/ld-linux-x86-64.so.2"),
        f"{DYNLOAD}/math.{TAG}.so": FIT,
        f"{LIB}/libc.so.6": LIBC,
        **package_files("transformers", "5.24.0", f"Requires-Dist: {requires}"),
        **package_files("tokenizers", "0.23.3"),
        f"{SITE}/tokenizers-0.23.3.dist-info/RECORD": record,
        f"{SITE}/tokenizers/__init__.py": init,
        **{f"{SITE}/tokenizers/{name}": content for name, content in modules.items()},
    }


def judge(files: dict[str, Content]) -> tuple[Asked, Asked]:
    path = (DYNLOAD, SITE)
    links = {"/usr/bin/python3": files["/usr/bin/python3.11"]}
    return (
        ask(conflicting_packages, fake_host({**files, **links}, search_path=path)),
        ask(loaded_libraries, fake_host({**files, **links}, search_path=path)),
    )


def codes(files: dict[str, Content]) -> list[str]:
    return [code for asked in judge(files) for code in asked.codes]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each kind."""
    for module in (ARM, library("libc.so", "libc.musl-x86_64.so.1"), library("libgone.so.1", "libc.so.6")):
        yield from judge(trainer({"tokenizers.abi3.so": module}))
    yield from judge(
        trainer({"tokenizers.abi3.so": library("libc.so.6", wants={"libc.so.6": ["GLIBC_2.99"]})})
    )


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("tokenizers.abi3.so", ARM, "conflicting-packages.other-machine"),
        ("tokenizers.cpython-311-aarch64-linux-gnu.so", ARM, "conflicting-packages.other-machine"),
        ("tokenizers.cpython-312-x86_64-linux-gnu.so", FIT, "conflicting-packages.other-python"),
        ("tokenizers.cpython-311-x86_64-linux-musl.so", FIT, "conflicting-packages.other-c-library"),
        ("tokenizers.abi3.so", library("libc.so"), "conflicting-packages.other-c-library"),
        ("tokenizers.abi3.so", library("libc.musl-x86_64.so.1"), "conflicting-packages.other-c-library"),
        (
            "tokenizers.abi3.so",
            library("libc.so.6", wants={"libc.so.6": ["GLIBC_2.99"]}),
            "conflicting-packages.other-c-library",
        ),
        ("tokenizers.abi3.so", library("libgone.so.1", "libc.so.6"), "loaded-libraries.not-found"),
    ],
)
def test_what_cannot_be_loaded(name: str, content: Content, code: str) -> None:
    for beside in ({}, {f"{LIB}/libc.so": SCRIPT}):  # with libc6-dev, without
        conflicting, loaded = judge({**trainer({name: content}), **beside})
        (found,) = [*conflicting.findings, *loaded.findings]
        assert (found.code, found.severity) == (code, Severity.ERROR)
        assert "tokenizers 0.23.3" in found.message
        if code.startswith("conflicting"):
            assert found.fix is not None and "tokenizers" in found.fix.commands[-1]


@pytest.mark.parametrize(
    "modules",
    [
        {"tokenizers.abi3.so": FIT},
        {f"tokenizers.{TAG}.so": FIT, "tokenizers.cpython-312-x86_64-linux-gnu.so": FIT},
        {f"tokenizers.{TAG}.so": FIT, "old.abi3.so": ARM, "libhelper.so": ARM},
        {"tokenizers.cpython-311-aarch64-linux-gnu.so": ARM, "tokenizers.py": "Tokenizer = 1\n"},
        {"tokenizers.abi3.so": library("libcudart.so.12", "libc.so.6")},
        {"tokenizers.abi3.so": library("libown.so", "libc.so.6"), "deep/libown.so": FIT},
        {"tokenizers.py": "Tokenizer = 1\n"},
    ],
)
def test_quiet_where_it_works(modules: dict[str, Content]) -> None:
    assert codes(trainer(modules)) == []


def test_a_package_that_goes_on_without_its_compiled_part() -> None:
    assert codes(trainer({"tokenizers.abi3.so": ARM}, init=GUARDED)) == []


def test_a_package_that_loads_the_library_itself() -> None:
    module = library("libgone.so.1", "libc.so.6")
    init = f"import ctypes\nctypes.CDLL('/opt/x/libgone.so.1')\n{NEEDED}"
    assert codes(trainer({"tokenizers.abi3.so": module}, init=init)) == []


@pytest.mark.parametrize("content", [b"", b"junk", unreadable(errno.EACCES)])
def test_what_package_files_says_is_not_said_twice(content: Content) -> None:
    asked, _loaded = judge(trainer({"tokenizers.abi3.so": content}))
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_where_the_c_library_is_not_found_nothing_is_known() -> None:
    files = trainer({"tokenizers.abi3.so": FIT})
    del files[f"{LIB}/libc.so.6"]
    assert codes(files) == []


def test_where_python_does_not_tell_its_tag_its_version_counts() -> None:
    files = trainer({"tokenizers.cpython-312-x86_64-linux-gnu.so": FIT})
    del files[f"{DYNLOAD}/math.{TAG}.so"]
    assert codes(files) == ["conflicting-packages.other-python"]
    files = trainer({f"tokenizers.{TAG}.so": FIT})
    del files[f"{DYNLOAD}/math.{TAG}.so"]
    assert codes(files) == []


GENERATED = """\
from google.protobuf import runtime_version as _runtime_version
_runtime_version.ValidateProtobufRuntimeVersion(
    _runtime_version.Domain.PUBLIC,
    6,
    31,
    1,
    '',
    'tensorflow/core/framework/tensor.proto'
)
"""


@pytest.mark.parametrize(
    ("installed", "text", "severity"),
    [
        ("3.20.3", GENERATED, Severity.ERROR),
        ("6.31.0", GENERATED, Severity.ERROR),
        ("8.0.0", GENERATED, Severity.WARNING),
        ("3.20.3", "descriptor = 1\n", Severity.WARNING),
        ("6.32.0", GENERATED, None),
    ],
)
def test_a_protobuf_older_than_what_generated_the_modules(
    installed: str, text: str, severity: Optional[Severity]
) -> None:
    path = "tensorflow/core/framework/tensor_pb2.py"
    files = {
        **package_files("tensorflow-cpu", "2.21.0", "Requires-Dist: protobuf<8.0.0,>=6.31.1"),
        **package_files("protobuf", installed),
        f"{SITE}/tensorflow_cpu-2.21.0.dist-info/RECORD": f"{path},sha256=x,1\n",
        f"{SITE}/{path}": text,
    }
    found = ask(package_requirements, fake_host(files)).findings
    said = [finding.severity for finding in found if finding.code == "package-requirements.unsuitable"]
    assert said == ([] if severity is None else [severity])


@pytest.mark.parametrize(("length", "said"), [(None, False), (200, True)])
def test_a_plug_in_of_which_a_part_is_gone(length: Optional[int], said: bool) -> None:
    files = {
        **package_files("tensorflow-cpu", "2.21.0"),
        f"{SITE}/tensorflow-plugins/libnpu.so": FIT[:length],
    }
    found = ask(framework_modules, fake_host(files)).codes
    assert found == (["framework-modules.plugin-unusable"] if said else [])


def test_a_version_that_works_is_no_word_about_none() -> None:
    """A requirement may be lenient because paddle works with this older safetensors: it still imports it."""
    files = {
        **trainer({}),
        **package_files("paddlepaddle", "3.3.1", "Requires-Dist: safetensors>=0.6"),
        **package_files("safetensors", "0.5.0"),
        f"{SITE}/safetensors-0.5.0.dist-info/RECORD": (
            "safetensors/__init__.py,sha256=x,1\nsafetensors/_safetensors_rust.abi3.so,sha256=x,1\n"
        ),
        f"{SITE}/safetensors/__init__.py": "from ._safetensors_rust import a\n",
        f"{SITE}/safetensors/_safetensors_rust.abi3.so": ARM,
    }
    findings = [finding for asked in judge(files) for finding in asked.findings]
    said = [finding for finding in findings if finding.code == "conflicting-packages.other-machine"]
    assert [finding.severity or Severity.ERROR for finding in said] == [Severity.ERROR]
