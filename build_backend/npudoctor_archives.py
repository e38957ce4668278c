"""Rewrites an sdist or a wheel so that a second build of the same files is the same bytes.

setuptools leaves in them what hangs on the machine: times of files, owners, the umask of the checkout. Only
where SOURCE_DATE_EPOCH says what time to write instead (`make package` takes it from the last commit).
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

EARLIEST = 315532800  # 1980 in seconds: a zip knows no earlier time


def steady(archive: Path) -> None:
    """Rewrite it in place."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told is None:
        return
    rewrite = _wheel if archive.suffix == ".whl" else _sdist
    content = rewrite(archive, int(told))
    archive.write_bytes(content)


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
        gzip.GzipFile("", "wb", fileobj=written, mtime=moment) as packed,
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
