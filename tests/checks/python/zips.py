"""Zip files in memory."""

from __future__ import annotations

import io
import zipfile


def zipped(*names: str) -> bytes:
    """One with these files, each of one byte."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()
