"""Finds the plug-ins installed next to npudoctor: the entry points of one group, read from their files.

importlib.metadata would take longer than all built-in checks together, in every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

GROUP = "npudoctor.checks"
INSTALLED = ("site-packages", "dist-packages")  # not the working directory, nor source directories
LIMIT = 1 << 16  # bytes that are read of an entry_points.txt


def find_entry_points(search_path: Iterable[str]) -> dict[tuple[str, str], str]:
    """By (name, module) of each entry point of our group, the file that declares it.

    When two directories of the path declare the same one, the first counts, as for imports.
    """
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
                # Most distributions have no such file; one that cannot be read brings no plug-in.
                with suppress(OSError):
                    # O_NONBLOCK: a FIFO of that name must not hang the run.
                    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                    try:
                        content = os.read(descriptor, LIMIT)
                    finally:
                        os.close(descriptor)
                if GROUP.encode() not in content:  # avoids decoding and parsing nearly all of them
                    continue
                for point, module in parse_entry_points(content.decode("utf-8", "replace")):
                    points.setdefault((point, module), file)
    return points


def parse_entry_points(text: str) -> list[tuple[str, str]]:
    """The pairs of name and value in the section of our group."""
    pairs, in_section = [], False
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            in_section = line == f"[{GROUP}]"
        elif in_section and "=" in line:
            name, _equals, value = line.partition("=")
            pairs.append((name.strip(), value.strip()))
    return pairs
