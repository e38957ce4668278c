"""Build npudoctor.pyz: npudoctor and all that it needs in one file, for Python 3.9 and newer.

Nothing in it is compiled, so it runs on every machine: the wheels are those of the oldest Python. Not shiv or
pex: both unpack into a folder of the user's home that stays. Two builds of one commit are the same bytes.

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

from carried import download
from sbom import bill

ROOT = Path(__file__).resolve().parent.parent
OLDEST, MACHINE = "3.9", "x86_64"
PACKED, COMPILED = "lib/", (".so",)
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
        folder = Path(scratch)
        download("one-file", OLDEST, MACHINE, folder, LEFT_OUT)
        carried = sorted(folder.glob("*.whl"))
        members = {name: content for path in (wheel, *carried) for name, content in _contents(path)}
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


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """What is needed of a wheel."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(COMPILED) and path.name.split("-")[0] not in WITHOUT:
                raise SystemExit(f"{path.name}: {name} is compiled")
            if not name.endswith((*COMPILED, "/", ".po", ".pyi")) and ".data/" not in name:
                yield f"{PACKED}{name}", archive.read(name)


if __name__ == "__main__":
    built, written, *more = map(Path, sys.argv[1:])
    main(built, written, *more)
    print(f"{written}: {os.path.getsize(written) >> 10} KiB")
