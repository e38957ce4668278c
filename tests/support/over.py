"""Shell lines that mount over a folder and still show what the tests run from: people and CI systems
put a clone below /tmp."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def own_places(below: str) -> list[str]:
    """Where this tree, its virtual environment and its Python lie below a folder, the outermost first."""
    places = {os.path.realpath(path) for path in (ROOT, sys.prefix, sys.base_prefix)}
    places |= {str(ROOT), sys.prefix}
    inside = sorted((path for path in places if path.startswith(f"{below}/")), key=len)
    return [path for path in inside if not any(path.startswith(f"{other}/") for other in inside)]


def mount_over(folder: str, options: str) -> str:
    """Lines for `sh -e` in a mount namespace: a tmpfs with these options there, and in it `find_own_places`.

    The old places are held by descriptors, as their paths lead into the new file system from then on.
    """
    places = {9 - number: shlex.quote(place) for number, place in enumerate(own_places(folder))}
    lines = [f"exec {number}<{place}" for number, place in places.items()]
    lines.append(f"mount -t tmpfs -o {options} tmpfs {folder}")
    for number, place in places.items():
        lines += [
            f"mkdir -p {place}",
            f"mount --no-canonicalize --rbind /proc/self/fd/{number} {place}",
            f"exec {number}<&-",
        ]
    return "\n".join(lines)
