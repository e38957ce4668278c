"""Rewrites what setuptools built: `steady`, so that a second build of the same files is the same bytes, and
`quick`, so that an editable install does not slow every start of its Python.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

EARLIEST = 315532800  # 1980 in seconds: a zip knows no earlier time
FINDER = """import sys

{mapping}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        folder = MAPPING.get(name)
        if folder is None:
            return None
        from importlib.machinery import ModuleSpec, SourceFileLoader

        file = folder + "/__init__.py"
        spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file, is_package=True)
        spec.submodule_search_locations.append(folder)
        spec.has_location = True
        return spec


def install():
    sys.meta_path.append(Finder)
"""


def steady(archive: Path) -> None:
    """Rewrite it in place.

    setuptools leaves in it what hangs on the machine: times of files, owners, the umask of the checkout. Only
    where SOURCE_DATE_EPOCH says what time to write instead (`make package` takes it from the last commit).
    """
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told is None:
        return
    rewrite = _wheel if archive.suffix == ".whl" else _sdist
    content = rewrite(archive, int(told))
    archive.write_bytes(content)


def quick(wheel: Path) -> None:
    """Give an editable wheel a finder that imports nothing, in place.

    That of setuptools imports pathlib and importlib.util when Python starts: 17 of 24 ms of every start of
    the environment's Python (3.11), which this project's tests pay thousands of times.
    """
    written = io.BytesIO()
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after:
        finder = next((name for name in before.namelist() if name.endswith("_finder.py")), "")
        lines = before.read(finder).decode().splitlines() if finder else []
        mapping = next((line for line in lines if line.startswith("MAPPING")), None)
        if mapping is None:
            return  # `--config-settings editable_mode=strict` links files instead
        content = FINDER.format(mapping=mapping).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        for old in before.infolist():
            data = before.read(old)
            if old.filename == finder:
                data = content
            elif old.filename.endswith(".dist-info/RECORD"):
                data = "".join(
                    f"{finder},sha256={digest},{len(content)}\n" if line.startswith(f"{finder},") else line
                    for line in data.decode().splitlines(keepends=True)
                ).encode()
            after.writestr(old, data)
    wheel.write_bytes(written.getvalue())


def _wheel(path: Path, moment: int) -> bytes:
    """Its order stays: RECORD is the last of a wheel."""
    written = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after:
        for old in before.infolist():
            entry = zipfile.ZipInfo(old.filename, time.gmtime(max(moment, EARLIEST))[:6])
            entry.external_attr = (stat.S_IFREG | _mode(old.external_attr >> 16)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            after.writestr(entry, before.read(old))
    return written.getvalue()


def _sdist(path: Path, moment: int) -> bytes:
    written = io.BytesIO()
    with (
        tarfile.open(path) as before,
        gzip.GzipFile("", "wb", 6, fileobj=written, mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for old in sorted(before, key=lambda member: member.name):
            entry = tarfile.TarInfo(old.name)
            entry.type, entry.size, entry.linkname = old.type, old.size, old.linkname
            entry.mtime, entry.mode = moment, 0o755 if old.isdir() else _mode(old.mode)
            after.addfile(entry, before.extractfile(old) if old.isfile() else None)
    return written.getvalue()


def _mode(mode: int) -> int:
    """What git knows of it: whether it can be executed."""
    return 0o755 if mode & stat.S_IXUSR else 0o644
