"""A CANN on disk, with the variables that its own script exports: made of files, none of which is run."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from npudoctor.testing import Content, Node

from ..scenarios import cann  # noqa: TID252
from ..scenarios.eras import ERAS  # noqa: TID252


def write(root: Path, version: str, python: str, machine: str) -> dict[str, str]:
    """Put the CANN of this version, with its driver's libraries, below a folder; what its script exports."""
    era = replace(ERAS[version], python=f"{python}.0")
    place = f"{root}{cann.ASCEND}"
    files = {**cann.tree(era, machine), **cann.driver(era, machine)}
    for name, content in files.items():
        if name.startswith(cann.ASCEND):
            _write(Path(place + name[len(cann.ASCEND) :]), content, place)
    variables = cann.variables(era, machine, "/usr/local/bin:/usr/bin:/bin")
    return {name: value.replace(cann.ASCEND, place) for name, value in variables.items()}


def _write(path: Path, content: Content, place: str) -> None:
    """One file, with the paths in it that name the usual place made to name ours."""
    node = content if isinstance(content, Node) else None
    path.parent.mkdir(parents=True, exist_ok=True)
    if node is not None and node.target:
        path.symlink_to(node.target.replace(cann.ASCEND, place))
    elif node is not None and stat.S_ISDIR(node.kind):
        path.mkdir(exist_ok=True)
    elif isinstance(content, str):
        path.write_text(content.replace(cann.ASCEND, place), encoding="utf-8")
    else:
        path.write_bytes(content.content if isinstance(content, Node) else content)
