"""What lies in a zip file, by its directory: Python imports from those on its search path."""

from __future__ import annotations

from typing import IO, Any

from npudoctor.host.fs.block_stream import BlockStream
from npudoctor.host.fs.files import Files


def members(files: Files, path: str) -> frozenset[str]:
    """The names in it; empty where it is no zip file, or one that may not be read."""
    entry = files.stat(path)
    if entry is None or not entry.is_file:
        return frozenset()
    import zipfile  # 4 ms, and hardly any search path has one

    stream: Any = BlockStream(files, path)
    archive: IO[bytes] = stream
    try:
        return frozenset(zipfile.ZipFile(archive).namelist())
    except Exception:  # whatever zipfile makes of hostile bytes
        return frozenset()
