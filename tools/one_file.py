"""Build npudoctor.pyz: npudoctor and all that it needs in one file, for Python 3.9 and newer.

The wheels are those of the oldest Python. Of what is compiled it holds psutil's library, which suits every
Python 3, for each machine; its start unpacks the one that fits. Not shiv or pex: both unpack into a folder of
the user's home that stays. Two builds of one commit are the same bytes.

    python tools/one_file.py WHEEL TARGET [SBOM]
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from carried import MACHINES, download, pins
from sbom import bill

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "3.9"
PACKED, COMPILED = "lib/", ".so"
BY_MACHINE = {"psutil"}  # what is compiled of them lies below machine/x86_64 and machine/aarch64
WITHOUT = {"pyyaml"}  # they do without what is compiled of them
# Not in it: rich and what it brings, which typer does without.
LEFT_OUT = {"rich", "pygments", "markdown-it-py", "mdurl"}
# In words that the oldest Python understands. Its own status for a traceback, 1, would mean "not ready".
MAIN = b"""import sys
if sys.version_info < (3, 9):
    sys.stderr.write("npudoctor: Python 3.9 or newer is needed, and this is %s\\n" % sys.version.split()[0])
    sys.exit(70)
import _signal
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
import os
library = os.path.dirname(os.__file__)
sys.path[1:] = [path for path in sys.path[1:] if path == library or path.startswith(library + "/lib-")]
try:
    from npudoctor_start import main
    status = main()
except (ImportError, MemoryError, OSError) as error:
    if sys.argv[1:2] == ["env"]:
        sys.stdout.write("false\\n")
    sys.stderr.write("npudoctor: %s: %s\\n" % (type(error).__name__, error))
    status = 70
sys.exit(status)
"""
# Python has no signal to answer with a traceback while it looks for what the file is: -c is its first line.
# Before the zip, which is read from its end: nothing that Python was talked into counts. Root starts no
# python3 of another user's folder of PATH; all else about it is judged later.
HEAD = b"""#!/bin/sh
# npudoctor: behind these lines is a zip file for Python 3.9 and newer.
python=python3
if [ -O / ]; then
    IFS=: && set -f
    for folder in $PATH; do
        case $folder in /*) ;; *) continue ;; esac
        [ -O "$folder/." ] && [ -O "$folder/python3" ] && [ -x "$folder/python3" ] || continue
        python=$folder/python3
        break
    done
    unset IFS && set +f
    case $python in
    /*) ;;
    *) echo "npudoctor: no folder of PATH that is root's has python3: PATH=/usr/bin:/bin $0" >&2; exit 64 ;;
    esac
fi
exec "$python" -I -S -c 'import _signal
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
import sys, zipimport
del sys.argv[0]
sys.path.insert(0, sys.argv[0])
exec(zipimport.zipimporter(sys.argv[0]).get_code("__main__"))' "$0" "$@"
exit 70
"""


def main(wheel: Path, target: Path, sbom: Optional[Path] = None) -> None:
    """Write the file, and where told the bill of its materials; the wheel is npudoctor's own."""
    with tempfile.TemporaryDirectory() as scratch:
        carried: list[Path] = []
        members = dict(_contents(wheel))
        for machine in MACHINES:
            folder = Path(scratch, machine)
            # All else is the same for all machines: the first brings it.
            names = {line.split("==")[0] for line in pins("one-file", OLDEST, machine)}
            leave_out = LEFT_OUT if not carried else names - BY_MACHINE
            download("one-file", OLDEST, machine, folder, leave_out)
            for path in sorted(folder.glob("*.whl")):
                members = {**dict(_contents(path, machine)), **members}
                carried.append(path)
        if sbom:
            sbom.write_text(bill(wheel, carried), encoding="utf-8")
    members["__main__.py"] = MAIN
    members["npudoctor_start.py"] = (ROOT / "tools/one_file_start.py").read_bytes()
    with target.open("wb") as file:
        file.write(HEAD)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(members):
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, members[name])
    target.chmod(0o755)


def _contents(path: Path, machine: str = "") -> Iterator[tuple[str, bytes]]:
    """What is needed of a wheel; `machine`: for which it is compiled, if it is."""
    project = path.name.split("-")[0]
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(COMPILED) and project in BY_MACHINE:
                if ".abi3." not in name:
                    raise SystemExit(f"{path.name}: {name} is for one Python alone")
                yield f"machine/{machine}/{name}", archive.read(name)
            elif name.endswith(COMPILED) and project not in WITHOUT:
                raise SystemExit(f"{path.name}: {name} is compiled")
            elif not name.endswith((COMPILED, "/", ".po", ".pyi")) and ".data/" not in name:
                yield f"{PACKED}{name}", archive.read(name)


if __name__ == "__main__":
    built, written, *more = map(Path, sys.argv[1:])
    main(built, written, *more)
    print(f"{written}: {os.path.getsize(written) >> 10} KiB")
