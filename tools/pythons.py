"""Print the path of a Python: `oldest` (the first that npudoctor supports), `newest`, or a version (`3.11`).

Looks on PATH and among pyenv's versions. Exit status 1 when there is none. Not nox nor `uv python find`: both
take pyenv's shim of a version that is not active, which exits with 127.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 9)
ASK = "import sys; print(*sys.version_info[:2], sys.version_info.releaselevel); print(sys.executable)"


def pythons() -> dict[tuple[int, int], str]:
    """The interpreters that really start (a pyenv shim may not), by version; the first of a version wins."""
    found: dict[tuple[int, int], str] = {}
    for candidate in candidates():
        try:
            command = [str(candidate), "-I", "-c", ASK]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        version, executable = done.stdout.splitlines()
        major, minor, level = version.split()
        if level == "final":
            found.setdefault((int(major), int(minor)), executable)
    return {version: path for version, path in found.items() if version >= OLDEST}


def candidates() -> Iterator[Path]:
    """Every file that may be an interpreter."""
    for folder in os.get_exec_path():
        yield from (path for path in sorted(Path(folder).glob("python3.*")) if path.suffix[1:].isdigit())
    for root in pyenv_roots():
        yield from sorted(root.glob("versions/3.*/bin/python3"))


def pyenv_roots() -> Iterator[Path]:
    """Where pyenv keeps its versions, if it is there."""
    try:
        done = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    yield Path(done.stdout.strip())


def main(wanted: str) -> int:
    """Print the interpreter that is meant."""
    found = pythons()
    version = OLDEST if wanted == "oldest" else max(found, default=OLDEST) if wanted == "newest" else None
    if version is None:
        major, minor = wanted.split(".")
        version = int(major), int(minor)
    if version not in found:
        print(f"no Python {version[0]}.{version[1]} on PATH or in pyenv", file=sys.stderr)
        return 1
    print(found[version])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
