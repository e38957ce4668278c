"""Byte code that is cut, as Python itself writes and reads it; sources that hold something else."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import py_compile
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.elves import library

from npudoctor.facts.python.spoiled_files import SpoiledFiles
from npudoctor.host.fs.disk import NO_FILE
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.python.byte_code import ByteCode
from npudoctor.host.python.installed_files import InstalledFile

VERSION = "{}.{}.{}".format(*sys.version_info)
KNOWN = sys.version_info[:2] <= (3, 13)
TEXT = "def f(x):\n    try:\n        return 2 * x\n    except ValueError:\n        return 'no'\n\n\n" * 20

pytestmark = pytest.mark.skipif(not KNOWN, reason="no form of this release's byte code is known")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "pack" / "__init__.py"
    path.parent.mkdir()
    path.write_text(TEXT, encoding="utf-8")
    return path


def compiled(
    source: Path, mode: py_compile.PycInvalidationMode = py_compile.PycInvalidationMode.TIMESTAMP
) -> Path:
    return Path(str(py_compile.compile(str(source), doraise=True, invalidation_mode=mode)))


def spoiled(source: Path, version: str = VERSION, cached: bool = True, installed: int = 0) -> Sequence[str]:
    site = source.parent.parent
    path = str(source.relative_to(site))
    looking = SpoiledFiles(Files(LocalDisk()), str(site), version, cached)
    here = source.stat().st_size
    return list(looking.find_spoiled([InstalledFile(path, installed or here)], [here], False))


def imports(source: Path) -> bool:
    """Whether Python itself loads it."""
    spec = importlib.util.spec_from_file_location("pack", source)
    assert spec is not None and spec.loader is not None
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except (EOFError, ValueError, TypeError, SyntaxError, ImportError):
        return False
    return True


UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
CHECKED = py_compile.PycInvalidationMode.CHECKED_HASH


@pytest.mark.parametrize("mode", [py_compile.PycInvalidationMode.TIMESTAMP, UNCHECKED])
@pytest.mark.parametrize("keep", [17, 100, 300, -1])
def test_cut(source: Path, mode: py_compile.PycInvalidationMode, keep: int) -> None:
    code = compiled(source, mode)
    assert spoiled(source) == [] and imports(source)
    code.write_bytes(code.read_bytes()[:keep])
    assert [name.rpartition("/")[2] for name in spoiled(source)] == [code.name]
    assert not imports(source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(): pass\nclass A:\n    def f(self):\n        try: pass\n        finally: pass\n" * 20,
        "x = '<module>'\ny = lambda: '<module>'\n" + "x = (x,\n x)\n" * 900,
    ],
)
def test_every_cut_is_told(source: Path, text: str) -> None:
    source.write_text(text, encoding="utf-8")
    code = compiled(source)
    content = code.read_bytes()
    cut = ByteCode(Files(LocalDisk()), str(source.parent.parent), VERSION.rpartition(".")[0])
    for keep in [*range(17, min(len(content), 300)), *range(max(17, len(content) - 40), len(content))]:
        code.write_bytes(content[:keep])
        ends = cut.read_ends("pack/__init__.py")
        assert ends is not None and cut.is_cut("pack/__init__.py", ends), keep
    code.write_bytes(content)
    assert spoiled(source) == []


@pytest.mark.parametrize("keep", [0, 7, 15])
def test_without_a_whole_head_it_is_made_anew(source: Path, keep: int) -> None:
    code = compiled(source)
    code.write_bytes(code.read_bytes()[:keep])
    assert spoiled(source) == [] and imports(source)


def test_what_is_not_the_sources_is_not_read(source: Path) -> None:
    code = compiled(source)
    code.write_bytes(code.read_bytes()[:100])
    os.utime(source, (1, 1))
    assert spoiled(source) == [] and imports(source)


def test_zeros_behind_the_head(source: Path) -> None:
    code = compiled(source)
    content = code.read_bytes()
    code.write_bytes(content[:16] + bytes(len(content) - 16))
    assert spoiled(source) != [] and not imports(source)


def test_byte_code_elsewhere_or_of_an_unknown_python_is_not_judged(source: Path) -> None:
    code = compiled(source)
    code.write_bytes(code.read_bytes()[:100])
    assert spoiled(source, cached=False) == []
    assert spoiled(source, version="3.99.0") == []
    compiled(source, CHECKED)
    assert spoiled(source) == []


def test_the_byte_code_of_this_pythons_own_library_is_whole() -> None:
    library = Path(os.__file__).parent
    code = ByteCode(Files(LocalDisk()), str(library), ".".join(VERSION.split(".")[:2]))
    ends = {path.name: code.read_ends(path.name) for path in library.glob("*.py")}
    assert any(ends.values())
    assert [name for name, end in ends.items() if end is not None and code.is_cut(name, end)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n", False),
        ("x = (1\n", True),
        ("<<<<<<< HEAD\nx = 1\n", True),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", True),
        ("x = 1\n\0\0\0", True),
        ("from . import gone\n", True),
        ("if SETUP:\n    pass\nelse:\n    from .gone import x\n", True),
        ("from . import there\nfrom .there import x\n", False),
        ("try:\n    from . import gone\nexcept ImportError:\n    pass\n", False),
        ("import sys\nif sys.platform == 'win32':\n    from . import gone\n", False),
        ("if TYPE_CHECKING:\n    from . import gone\n", False),
        ("gone = 1\nfrom . import gone\n", False),
    ],
)
def test_a_source_of_another_size(source: Path, text: str, found: bool) -> None:
    source.write_text(text, encoding="utf-8")
    (source.parent / "there.py").write_text("", encoding="utf-8")
    assert spoiled(source, installed=7777) == (["pack/__init__.py"] if found else [])


@pytest.mark.parametrize(
    ("text", "installed", "found"),
    [
        ("x = [1, 2\n, fun", 500, True),  # cut
        ("x = [1, 2\n, fun", 10, False),  # it grew: somebody's own
        ("x = [1, 2\n, fun\n", 500, False),  # what our Python does not know
        ("x = [1, 2]", 500, False),
    ],
)
def test_a_source_of_another_python_that_became_shorter(
    source: Path, text: str, installed: int, found: bool
) -> None:
    source.write_text(text, encoding="utf-8")
    assert spoiled(source, version="3.99.0", installed=installed) == (["pack/__init__.py"] if found else [])


def test_zeros_of_the_right_size(source: Path) -> None:
    source.write_bytes(bytes(500))
    assert spoiled(source) == ["pack/__init__.py"]
    (source.parent / "lib.so").write_bytes(bytes(500))
    looking = SpoiledFiles(Files(LocalDisk()), str(source.parent.parent), VERSION, True)
    assert list(looking.find_spoiled([InstalledFile("pack/lib.so", 500)], [500], False)) == ["pack/lib.so"]
    for content, found in ((b"\x7fELF\x02\x01" + bytes(494), False), (library("libc.so.6"), False),
                           (b"\x7fELF\x02\x01".ljust(16, b"\0") + b"\3" + bytes(483), True)):  # fmt: skip
        (source.parent / "lib.so").write_bytes(content)
        told = looking.find_spoiled([InstalledFile("pack/lib.so", len(content))], [len(content)], False)
        assert list(told) == (["pack/lib.so"] if found else [])


def test_zeros_deep_in_a_framework(source: Path) -> None:
    (source.parent / "nn").mkdir()
    deep = source.parent / "nn/functional.py"
    deep.write_text(TEXT, encoding="utf-8")
    size = deep.stat().st_size
    looking = SpoiledFiles(Files(LocalDisk()), str(source.parent.parent), VERSION, True)
    listed = [InstalledFile("pack/nn/functional.py", size)]
    assert list(looking.find_spoiled(listed, [size], True)) == []
    deep.write_bytes(TEXT.encode()[:100] + bytes(size - 100))
    assert list(looking.find_spoiled(listed, [size], True)) == ["pack/nn/functional.py"]


def test_a_folder_in_the_place_of_a_file(source: Path) -> None:
    looking = SpoiledFiles(Files(LocalDisk()), str(source.parent.parent), VERSION, True)
    assert list(looking.find_spoiled([InstalledFile("pack/x.so", 9)], [NO_FILE], False)) == ["pack/x.so"]


@pytest.mark.parametrize(
    ("written", "content", "found"), [(9, b"d", True), (0, b"d", False), (9, b"", False)]
)
def test_a_library_that_is_another_of_the_same_size(
    source: Path, written: int, content: bytes, found: bool
) -> None:
    """Of those that are younger than the list only: to read all would take seconds."""
    path, installed = source.parent / "lib.so", library("libc.so.6", rodata=b"abc")
    digest = base64.urlsafe_b64encode(hashlib.sha256(installed).digest()).rstrip(b"=").decode()
    path.write_bytes(installed.replace(b"abc", b"ab" + content) if content else installed)
    os.utime(path, (1000 + written, 1000 + written))
    looking = SpoiledFiles(Files(LocalDisk()), str(source.parent.parent), VERSION, True, 1000)
    listed = [InstalledFile("pack/lib.so", len(installed), digest)]
    assert list(looking.find_spoiled(listed, [len(installed)], False)) == []
    assert looking.other == (["pack/lib.so"] if found else [])


@pytest.mark.parametrize("ends", [b"\r\n", b"\n"])
def test_other_ends_of_lines_are_no_change(source: Path, ends: bytes) -> None:
    other = b"\n" if ends == b"\r\n" else b"\r\n"
    source.write_bytes(TEXT.encode().replace(b"\n", ends))
    looking = SpoiledFiles(Files(LocalDisk()), str(source.parent.parent), VERSION, True)
    listed = [InstalledFile("pack/__init__.py", len(TEXT.encode().replace(b"\n", other)))]
    assert looking.find_changed(listed, [source.stat().st_size]) == []
    source.write_bytes(source.read_bytes() + b"# more\n")
    assert looking.find_changed(listed, [source.stat().st_size]) == ["pack/__init__.py"]


def stale(source: Path, version: str = VERSION, cached: bool = True, *more: str) -> list[str]:
    site = source.parent.parent
    looking = SpoiledFiles(Files(LocalDisk()), str(site), version, cached)
    paths = [str(source.relative_to(site)), *more]
    sizes = [(site / path).stat().st_size for path in paths]
    assert list(looking.find_spoiled(list(map(InstalledFile, paths, sizes)), sizes, False)) == []
    return looking.stale


def test_byte_code_of_another_source_that_is_not_compared(source: Path) -> None:
    deep = source.parent / "a/b.py"
    deep.parent.mkdir()
    deep.write_text(TEXT, encoding="utf-8")
    compiled(source, UNCHECKED)
    compiled(deep, UNCHECKED)
    assert stale(source, VERSION, True, "pack/a/b.py") == []
    deep.write_text("x = 1\n", encoding="utf-8")
    assert stale(source, VERSION, True, "pack/a/b.py") == ["pack/a/b.py"]
    source.write_text("x = 1\n", encoding="utf-8")
    assert stale(source) == ["pack/__init__.py"]
    assert stale(source, cached=False) == []
    assert stale(source, version="3.99.0") == []
    compiled(source, CHECKED)
    source.write_text("x = 22\n", encoding="utf-8")
    assert stale(source) == [], "Python compares it and compiles it again"


def test_the_function_of_another_release_is_not_had(source: Path) -> None:
    """Its byte code may be stale; who cannot compute it says nothing."""
    code = compiled(source, UNCHECKED)
    end = b"\xe3\xda\x08<module>\1\0\0\0s\0\0\0\0"
    old, new = (b"a\r\r\n", "3.9", end), (b"\xa7\r\r\n", "3.11", end + b"s\0\0\0\0")
    magic, version, end = old if sys.version_info >= (3, 11) else new
    name = code.name.replace(
        f"cpython-{sys.version_info[0]}{sys.version_info[1]}", "cpython-" + version.replace(".", "")
    )
    code.with_name(name).write_bytes(magic + code.read_bytes()[4:16] + end)
    source.write_text("x = 1\n", encoding="utf-8")
    assert stale(source, version=version) == []
