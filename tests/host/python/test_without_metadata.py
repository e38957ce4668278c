"""Packages without metadata, and zip files on the search path."""

from __future__ import annotations

import io
import zipfile

import pytest

from npudoctor.host.fs.archives import list_members
from npudoctor.testing import SITE, Content, fake_host, package_files

UNKNOWN = "try:\n    __version__ = metadata()\nexcept Exception:\n    __version__ = '0.dev0+unknown'\n"
VERSION = "full_version  = '3.3.1'\n"


@pytest.mark.parametrize(
    ("name", "files", "version"),
    [
        ("numpy", {"numpy/__init__.py": "", "numpy/version.py": 'version = "1.26.4"\n'}, "1.26.4"),
        ("torch", {"torch/__init__.py": "", "torch/version.py": "__version__ = '2.9.0+cpu'\n"}, "2.9.0+cpu"),
        ("protobuf", {"google/protobuf/__init__.py": "__version__ = '6.33.0'\n"}, "6.33.0"),
        ("typing_extensions", {"typing_extensions.py": "x = 1\n"}, ""),
        ("Pillow", {"PIL/__init__.py": "", "PIL/_version.py": '__version__ = "12.0.0"\n'}, "12.0.0"),
        ("paddlepaddle", {"paddle/__init__.py": "", "paddle/version/__init__.py": VERSION}, "3.3.1"),
        ("nvidia-cudnn-cu12", {"nvidia/cudnn/lib/libcudnn.so.9": ""}, ""),
        ("setuptools", {"setuptools/__init__.py": "", "setuptools/version.py": UNKNOWN}, ""),
    ],
)  # fmt: skip
def test_there_without_metadata(name: str, files: dict[str, str], version: str) -> None:
    host = fake_host({f"{SITE}/{path}": text for path, text in files.items()})
    found = host.interpreter.installed(name)
    assert found is not None and found.version == version
    assert host.interpreter.version_of(name) == (version or None)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("numpy", {"numpy/__pycache__/a.pyc": ""}),
        ("numpy", {"numpy/data.txt": ""}),
        ("protobuf", {"google/cloud/__init__.py": ""}),
        ("triton", {"triton/__init__.py": "", "triton_ascend-3.2.0.dist-info/METADATA": ""}),
        ("mindspore-ascend", {"mindspore/__init__.py": ""}),
        ("nvidia-cudnn-cu12", {"nvidia/cudnn/lib/x.so": "", "nvidia_cudnn_cu13-9.0.dist-info/METADATA": ""}),
    ],
)  # fmt: skip
def test_not_there(name: str, files: dict[str, str]) -> None:
    assert (
        fake_host({f"{SITE}/{path}": text for path, text in files.items()}).interpreter.installed(name)
        is None
    )


def test_metadata_counts_where_there_is_any() -> None:
    files: dict[str, Content] = {**package_files("numpy", "2.1.0"), f"{SITE}/numpy/__init__.py": ""}
    assert fake_host(files).interpreter.version_of("numpy") == "2.1.0"


def archive(comment: bytes = b"", before: bytes = b"") -> bytes:
    content = io.BytesIO()
    content.write(before)
    with zipfile.ZipFile(content, "a") as file:
        file.writestr("a/__init__.py", "x" * 100)
        file.writestr("b.py", "y")
        file.comment = comment
    return content.getvalue()


@pytest.mark.parametrize("content", [archive(), archive(b"PK" * 40), archive(before=b"#!/usr/bin/python3\n")])
def test_members_of_a_zip_file(content: bytes) -> None:
    assert list_members(fake_host({"/x.zip": content}).files, "/x.zip") == {"a/__init__.py", "b.py"}


@pytest.mark.parametrize("content", [b"", b"no zip", archive()[:-30], b"PK\5\6", b"PK\5\6" + b"\xff" * 18])
def test_what_is_no_zip_file(content: bytes) -> None:
    assert list_members(fake_host({"/x.zip": content}).files, "/x.zip") == frozenset()
    assert list_members(fake_host({}).files, "/x.zip") == frozenset()
