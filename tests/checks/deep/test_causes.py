"""What is said of an import that failed: really made environments of a few lines, and what loaders say."""

from __future__ import annotations

import py_compile
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from npudoctor import Finding
from npudoctor.checks.deep._import_errors import cause_of
from npudoctor.checks.deep.framework_imports import framework_imports
from npudoctor.core.messages import activate
from npudoctor.facts.job.tracebacks import Frame, Raised
from npudoctor.testing import ask

from .probe_machine import machine, package

LOADED = "{site}/torch/lib/libc10.so"


@pytest.fixture(autouse=True)
def _in_english() -> None:
    activate("en")


def listed(site: Path, name: str, version: str, *paths: str, requires: str = "") -> None:
    """A distribution with a list of files."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    wanted = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}")
    (info / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in paths))


def torch(site: Path, source: str, *more: str, requires: str = "") -> None:
    package(site, "torch", source)
    listed(site, "torch", "2.13.0", "torch/__init__.py", *more, requires=requires)


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def failure(site: Path, **variables: str) -> Finding:
    host = machine(site, variables=variables)
    try:
        (finding,) = ask(framework_imports, host).findings
    finally:
        host.close()
    assert isinstance(finding, Finding)
    return finding


def test_a_file_that_is_gone(site: Path) -> None:
    torch(site, "import sympy")
    listed(site, "sympy", "1.14.0", "sympy/__init__.py")
    finding = failure(site)
    assert finding.message == f"import torch fails: {site}/sympy/__init__.py of sympy 1.14.0 is missing"
    assert finding.evidence[:2] == (
        "ModuleNotFoundError: No module named 'sympy'",
        f"{site}/torch/__init__.py:2",
    )
    assert finding.fix is not None and "sympy 1.14.0" in finding.fix.title


def test_a_part_that_is_gone_looks_like_a_circle(site: Path) -> None:
    torch(site, "import torch.nn", "torch/nn/__init__.py", "torch/nn/functional.py")
    write(site / "torch" / "nn" / "__init__.py", "from torch.nn import functional\n")
    assert f"{site}/torch/nn/functional.py of torch 2.13.0 is missing" in failure(site).message


def test_a_real_circle(site: Path) -> None:
    torch(site, "import torch.a", "torch/a.py", "torch/b.py")
    write(site / "torch" / "a.py", "from torch.b import y\nx = 1\n")
    write(site / "torch" / "b.py", "from torch.a import x\ny = 1\n")
    assert f"{site}/torch/b.py:1 needs x before torch.a has defined it" in failure(site).message


def test_a_release_without_a_name(site: Path) -> None:
    torch(site, "from typing_extensions2 import TypeIs", requires="typing_extensions2>=4.10")
    write(site / "typing_extensions2.py", "")
    listed(site, "typing_extensions2", "4.1.1", "typing_extensions2.py")
    finding = failure(site)
    expected = "typing_extensions2 4.1.1 has no TypeIs in typing_extensions2, which torch 2.13.0 needs"
    assert finding.message == f"import torch fails: {expected}"
    assert finding.fix is not None and "typing_extensions2 4.1.1" in finding.fix.title


def test_an_attribute_of_a_release(site: Path) -> None:
    torch(site, "import helper\nhelper.function()")
    write(site / "helper" / "__init__.py", "")
    listed(site, "helper", "0.1", "helper/__init__.py")
    assert "helper 0.1 has no function in helper, which torch 2.13.0 needs" in failure(site).message


def test_files_of_two_releases(site: Path) -> None:
    torch(site, "from torch.part import new", "torch/part.py")
    write(site / "torch" / "part.py", "old = 1\n")
    finding = failure(site)
    expected = f"the files of torch 2.13.0 are inconsistent: torch.part has no new, which {site}/torch/"
    assert expected in finding.message
    assert finding.fix is not None and "torch 2.13.0" in finding.fix.title


@pytest.mark.parametrize("text", ["x = 1\n", ""])
def test_a_file_of_the_job_that_hides_a_module(site: Path, tmp_path: Path, text: str) -> None:
    torch(site, "from random import Random")
    write(tmp_path / "job" / "random.py", text)
    finding = failure(site)
    assert finding.message.startswith(
        f"import torch fails: {tmp_path}/job/random.py shadows the module random: "
    )
    assert finding.fix is not None and f"rename {tmp_path}/job/random.py" in finding.fix.title


def test_json_of_the_job_keeps_no_probe_from_its_answer(site: Path, tmp_path: Path) -> None:
    torch(site, "import json\njson.JSONEncoder")
    write(tmp_path / "job" / "json.py", "")
    assert f"{tmp_path}/job/json.py shadows the module json" in failure(site).message


@pytest.mark.parametrize(
    "content", [b"def f(:\n", b"\0" * 40, b"x = '\xff'\n"], ids=["syntax", "null bytes", "no UTF-8"]
)
def test_a_damaged_source(site: Path, content: bytes) -> None:
    torch(site, "import torch.types", "torch/types.py")
    (site / "torch" / "types.py").write_bytes(content)
    finding = failure(site)
    assert f"{site}/torch/types.py of torch 2.13.0 is damaged: " in finding.message
    assert finding.fix is not None and "torch 2.13.0" in finding.fix.title


def test_damaged_byte_code(site: Path) -> None:
    torch(site, "import torch.types", "torch/types.py")
    source = site / "torch" / "types.py"
    source.write_text("x = [1, 2, 3]\n")
    code = Path(str(py_compile.compile(str(source))))
    code.write_bytes(code.read_bytes()[:40])
    finding = failure(site)
    assert f"the byte code of {source} of torch 2.13.0 is damaged: " in finding.message
    assert finding.fix is not None and "__pycache__" in finding.fix.title


def test_a_plugin_that_torch_loads_by_itself(site: Path) -> None:
    loads = (
        "try:\n    import plugin\nexcept Exception as e:\n    raise RuntimeError('backend extension') from e"
    )
    torch(site, loads)
    write(site / "plugin" / "__init__.py", "import driver_gone\n")
    listed(site, "plugin", "1.0", "plugin/__init__.py")
    finding = failure(site)
    assert "the module driver_gone is not installed; plugin 1.0 imports it" in finding.message
    assert "RuntimeError: backend extension" in finding.evidence


def test_warnings_made_errors(site: Path) -> None:
    torch(site, "import warnings\nwarnings.warn('old')")
    finding = failure(site, PYTHONWARNINGS="error")
    expected = "PYTHONWARNINGS=error turns a warning from torch 2.13.0 into an error: UserWarning: old"
    assert finding.message == f"import torch fails: {expected}"


def test_who_ends_python(site: Path) -> None:
    torch(site, "raise SystemExit('licence expired')")
    expected = f"exit status 1: {site}/torch/__init__.py:2 of torch 2.13.0 makes Python exit: licence expired"
    assert failure(site).message == f"import torch fails: {expected}"


def test_a_crash_names_the_place(site: Path) -> None:
    torch(site, "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    finding = failure(site)
    assert f"killed by signal 4 (SIGILL) in {site}/torch/__init__.py:2 of torch 2.13.0" in finding.message
    assert finding.fix is not None and "processor" in finding.fix.title


def test_an_abort_says_what_was_thrown(site: Path) -> None:
    words = "terminate called after throwing an instance of 'std::bad_alloc'\\n  what():  std::bad_alloc\\n"
    torch(site, f'import os\nos.write(2, b"{words}")\nos.abort()')
    assert failure(site).message.endswith("of torch 2.13.0: std::bad_alloc")


def test_in_chinese(site: Path) -> None:
    torch(site, "import sympy")
    listed(site, "sympy", "1.14.0", "sympy/__init__.py")
    activate("zh")
    try:
        message = failure(site).message
    finally:
        activate("en")
    assert message.endswith(f"sympy 1.14.0 的 {site}/sympy/__init__.py 不存在")


MISSING = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            f"libcublas.so.12: {MISSING}",
            "{site}/nvidia/libcublas.so.12 of nvidia-cublas 12.8 is missing; torch",
        ),
        (
            f"libascend_hal.so: {MISSING}",
            "torch 2.13.0 needs the library libascend_hal.so, which is not found",
        ),
        (
            f"libc10.so: {MISSING}",
            "the loader does not search {site}/torch/lib of",
        ),
        (f"{LOADED}: file too short", f"{LOADED} of torch 2.13.0 is damaged: file too short"),
        (f"{LOADED}: invalid ELF header", f"{LOADED} of torch 2.13.0 is damaged: invalid ELF header"),
        (
            f"{LOADED}: undefined symbol: cuFoo, version v1",
            f"{LOADED} of torch 2.13.0 needs the symbol cuFoo",
        ),
        (
            "libc10.so: wrong ELF class: ELFCLASS32",
            "libc10.so of torch 2.13.0 was built for another processor",
        ),
        (
            f"/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by {LOADED})",
            f"{LOADED} of torch 2.13.0 needs GLIBCXX_3.4.32 from /lib/libstdc++.so.6, which is too old",
        ),
        (
            f"{LOADED}: cannot allocate memory in static TLS block",
            "no room for the thread-local data of",
        ),
        (
            f"{LOADED}: failed to map segment from shared object: Operation not permitted",
            f"{LOADED} of torch 2.13.0 cannot be mapped as executable: failed to map segment",
        ),
        (
            f"{LOADED}: cannot open shared object file: Permission denied",
            "cannot be opened: Permission denied",
        ),
        (f"{LOADED}: something new", f"{LOADED} of torch 2.13.0 cannot be loaded: something new"),
    ],
)
def test_what_the_loader_says(site: Path, message: str, sentence: str) -> None:
    torch(site, "", "torch/lib/libc10.so")
    write(site / "torch" / "lib" / "libc10.so", "")
    listed(site, "nvidia-cublas", "12.8", "nvidia/libcublas.so.12")
    assert sentence.format(site=site) in judged(site, [error("ImportError", message.format(site=site))])


def error(kind: str, message: str, how: str = "", place: str = "torch/__init__.py") -> Raised:
    bases = {"ModuleNotFoundError": ("ModuleNotFoundError", "ImportError"), "MemoryError": ("MemoryError",)}
    return Raised(kind, message, how, bases.get(kind, (kind,)), frames=(Frame(place, 3, "<module>"),))


def judged(site: Path, chain: Sequence[Raised], python: str = sys.executable) -> str:
    at_site = [
        Raised(one.type, one.message, one.how, one.bases, frames=(Frame(f"{site}/torch/__init__.py", 3),))
        for one in chain
    ]
    host = machine(site, python=python)
    cause = cause_of(host, at_site)
    host.close()
    assert cause is not None
    sentence: str = cause.sentence
    return sentence


def test_what_was_being_handled_counts_where_it_says_more(site: Path) -> None:
    torch(site, "")
    chain = [error("ValueError", "no libcublas"), error("OSError", f"libcublas.so.12: {MISSING}", "context")]
    assert "the library libcublas.so.12, which is not found" in judged(site, chain)


def test_the_second_of_two_ways_is_the_cause(site: Path) -> None:
    torch(site, "")
    first = error("ModuleNotFoundError", "No module named 'first_gone'", "context")
    chain = [error("ModuleNotFoundError", "No module named 'second_gone'"), first]
    assert "the module second_gone is not installed" in judged(site, chain)


def test_another_numpy(site: Path) -> None:
    torch(site, "")
    listed(site, "numpy", "2.5.0", "numpy/__init__.py")
    words = "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88"
    sentence = judged(site, [error("ValueError", words)])
    assert sentence.startswith("torch 2.13.0 was built for a release other than the installed numpy 2.5.0")


def te(site: Path, source: str, size: str = "1") -> None:
    torch(site, "from typing_extensions import TypeIs", requires="typing_extensions>=4.10")
    write(site / "typing_extensions.py", source)
    listed(site, "typing_extensions", "4.16.0", requires="")
    (site / "typing_extensions-4.16.0.dist-info/RECORD").write_text(
        f"typing_extensions.py,sha256=x,{size}\r\n"
    )


def test_a_file_of_another_release(site: Path) -> None:
    te(site, "TypeGuard = 1\n")
    finding = failure(site)
    assert "typing_extensions.py is not the file that typing_extensions 4.16.0 installed" in finding.message
    assert finding.fix is not None and "typing_extensions 4.16.0" in finding.fix.title


def test_byte_code_of_another_file(site: Path) -> None:
    source = "TypeIs = 1\n"
    te(site, source, str(len(source)))
    write(site / "old.py", "TypeGuard = 1\n")
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
    py_compile.compile(
        str(site / "old.py"),
        cfile=str(site / "__pycache__" / f"typing_extensions.{tag}.pyc"),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    finding = failure(site)
    assert (
        "has TypeIs, which torch 2.13.0 needs, but its byte code comes from another file" in finding.message
    )
    assert finding.fix is not None and f"{site}/__pycache__" in finding.fix.title


def test_a_numpy_that_is_not_there(site: Path) -> None:
    torch(site, "")
    chain = [error("RuntimeError", "Numpy is not available")]
    listed(site, "numpy", "2.4.6", "numpy/__init__.py")
    assert judged(site, chain).startswith(f"{site}/numpy/__init__.py of numpy 2.4.6 is missing")
    write(site / "numpy/__init__.py", "")
    assert "Numpy is not available" in judged(site, chain)
