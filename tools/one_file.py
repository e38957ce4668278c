"""Build npudoctor.pyz: npudoctor and all that it needs in one file, for Python 3.9 and newer.

It runs on x86-64 and on aarch64: what is compiled (psutil) is there for both, the rest are the wheels of the
oldest Python. Not shiv or pex: both unpack into a folder of the user's home that stays, and neither holds two
machines in one file. Two builds of one commit are the same bytes.

    python tools/one_file.py WHEEL TARGET [SBOM]
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Optional

from carried import MACHINES, download
from sbom import bill

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "3.9"
# Not in it: rich and what it brings, which typer does without.
LEFT_OUT = {"rich", "pygments", "markdown-it-py", "mdurl"}
# In words that the oldest Python understands.
MAIN = b"""import sys
if sys.version_info < (3, 9):
    sys.stderr.write("npudoctor: Python 3.9 or newer is needed, and this is %s\\n" % sys.version.split()[0])
    sys.exit(70)
from npudoctor_start import main
sys.exit(main())
"""
SHEBANG = b"#!/usr/bin/env python3\n"


def main(wheel: Path, target: Path, sbom: Optional[Path] = None) -> None:
    """Write the file, and where told the bill of its materials; the wheel is npudoctor's own."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = {machine: Path(scratch) / machine for machine in MACHINES}
        for machine, folder in folders.items():
            download("one-file", OLDEST, machine, folder, LEFT_OUT)
        members = _members(wheel, folders)
        if sbom:
            carried = (path for folder in folders.values() for path in folder.glob("*.whl"))
            sbom.write_text(bill(wheel, carried), encoding="utf-8")
    members["__main__.py"] = MAIN
    members["npudoctor_start.py"] = (ROOT / "tools/one_file_start.py").read_bytes()
    with target.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(members):
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, members[name])
    target.chmod(0o755)


def _members(wheel: Path, folders: dict[str, Path]) -> dict[str, bytes]:
    """By name in the archive: what all machines share below all/, the rest below the machine's name."""
    found = _contents(wheel, "all", pure=True)
    for machine, folder in folders.items():
        for path in sorted(folder.glob("*.whl")):
            name, *_version, platform = path.stem.split("-")
            place = "all" if platform == "any" or name.lower() == "pyyaml" else machine
            found.update(_contents(path, place, pure=place == "all"))
    return found


def _contents(path: Path, place: str, *, pure: bool) -> dict[str, bytes]:
    """The files of a wheel; of one that also works without its compiled part only the others."""
    with zipfile.ZipFile(path) as archive:
        return {
            f"{place}/{name}": archive.read(name)
            for name in archive.namelist()
            if not name.endswith("/") and not (pure and name.endswith(".so")) and ".data/scripts/" not in name
        }


if __name__ == "__main__":
    built, written, *more = map(Path, sys.argv[1:])
    main(built, written, *more)
    print(f"{written}: {os.path.getsize(written) >> 10} KiB")
