"""What lies beside npudoctor and is searched for by `import`: what Python's `site` would add, less its code.

A .pth file may hold code, which Python runs at each of its starts, whoever wrote it. Ours runs none but that
of an editable install, which is how a plug-in under development is found.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Callable

EDITABLE = "__editable__"
MOST = 1 << 16  # characters of a .pth file


def extend(folders: Iterable[str], counts: Callable[[str], bool]) -> None:
    """Add these folders to sys.path, and those that their .pth files name, where `counts` accepts them."""
    for folder in filter(counts, folders):
        if folder not in sys.path:
            sys.path.append(folder)
        # site.py reads them in this order, too.
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".pth")):
            if counts(f"{folder}/{name}"):
                _add_lines(folder, name, counts)


def _add_lines(folder: str, name: str, counts: Callable[[str], bool]) -> None:
    try:
        with open(f"{folder}/{name}", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.strip() for line in file.read(MOST).splitlines()]
    # As site.py does: a .pth file that cannot be read adds nothing.
    except OSError:
        return
    for line in lines:
        if line.startswith(("import ", "import\t")):
            # setuptools writes __editable__.NAME.pth with "import __editable___NAME_finder; ...".
            if name.startswith(EDITABLE) and line.split()[1].startswith(EDITABLE):
                _run(line)
        elif line and not line.startswith("#"):
            # Relative lines are below the folder of the .pth file, as site.py has it.
            path = os.path.normpath(os.path.join(folder, line))
            if path not in sys.path and os.path.exists(path) and counts(path):
                sys.path.append(path)


def _run(line: str) -> None:
    module = line.split()[1].rstrip(";")
    if module in sys.modules:
        return  # ours: it led here
    try:  # noqa: SIM105  (contextlib costs more than all of this file)
        exec(line, {})  # noqa: S102
    except Exception:  # noqa: S110  (a plug-in that cannot be imported has a row that says so)
        pass
