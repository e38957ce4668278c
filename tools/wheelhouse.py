"""Build the wheelhouse: npudoctor and all that it and its extras need, for pip on machines without an index.

One tar for x86_64 and aarch64, CPython 3.9 to 3.13; pip chooses in it. Two builds of one commit are the same
bytes.

    python tools/wheelhouse.py WHEEL TARGET.tar
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from carried import MACHINES, download, pins
from sbom import bill

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


def main(wheel: Path, target: Path) -> None:
    """Write the tar, with the sums and the bill of materials of its wheels in it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copy(wheel, folder)
        for machine in MACHINES:
            for python in PYTHONS:
                download("wheelhouse", python, machine, folder, brought(folder, python, machine))
        name = target.name[: -len(".tar")]
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
            for file, content in members(folder, wheel.name):
                entry = tarfile.TarInfo(f"{name}/{file}")
                entry.size, entry.mode = len(content), 0o644
                entry.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
                archive.addfile(entry, io.BytesIO(content))


def brought(folder: Path, python: str, machine: str) -> set[str]:
    """Of what is pinned for this Python on this machine, that of which the wheel for all of them is there."""
    names = (path.name.split("-") for path in folder.glob("*-none-any.whl"))
    there = {(canonicalize_name(name), version) for name, version, *_tags in names}
    pinned = (line.split(" ")[0].split("==") for line in pins("wheelhouse", python, machine))
    return {name for name, version in pinned if (canonicalize_name(name), version) in there}


def members(folder: Path, ours: str) -> Iterator[tuple[str, bytes]]:
    """The wheels, then what tells about them."""
    wheels = sorted(folder.glob("*.whl"))
    sums = []
    for path in wheels:
        content = path.read_bytes()
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")
        yield path.name, content
    yield "SHA256SUMS", "".join(sums).encode()
    yield "sbom.cdx.json", bill(folder / ours, wheels).encode()


if __name__ == "__main__":
    built, written = map(Path, sys.argv[1:3])
    main(built, written)
    print(f"{written}: {os.path.getsize(written) >> 20} MiB")
