"""Finds the plug-ins that are installed beside npudoctor: entry points of one group, by their files alone.

importlib.metadata would cost more than all built-in checks together, on every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

GROUP = "npudoctor.checks"
INSTALLED = ("site-packages", "dist-packages")  # neither the working directory nor folders of sources
LIMIT = 1 << 16


def entry_points(search_path: Iterable[str]) -> dict[tuple[str, str], str]:
    """All of our group: name and module, and the file in which they stand; of the same in two folders the
    first counts."""
    points: dict[tuple[str, str], str] = {}
    for folder in search_path:
        if os.path.basename(folder.rstrip("/")) not in INSTALLED:
            continue
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                file = f"{folder}/{name}/entry_points.txt"
                content = b""
                with suppress(OSError):
                    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                    try:
                        content = os.read(descriptor, LIMIT)
                    finally:
                        os.close(descriptor)
                if GROUP.encode() not in content:  # few distributions have one, and fewer speak of us
                    continue
                for point, module in parse(content.decode("utf-8", "replace")):
                    points.setdefault((point, module), file)
    return points


def parse(text: str) -> list[tuple[str, str]]:
    """Name and value of each line in the section of our group."""
    pairs, ours = [], False
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            ours = line == f"[{GROUP}]"
        elif ours and "=" in line:
            name, _equals, value = line.partition("=")
            pairs.append((name.strip(), value.strip()))
    return pairs
