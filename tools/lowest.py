"""Print the lowest versions that pyproject.toml allows, as a pip constraints file.

Not `uv pip compile --resolution lowest-direct`: it prints the same, weighs 37 MB, and first asks the network
for a Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def lowest(requirement: str) -> str:
    """`typer>=0.16` becomes `typer==0.16`, its marker is kept."""
    parsed = Requirement(requirement)
    bounds = [specifier.version for specifier in parsed.specifier if specifier.operator in {">=", "=="}]
    if len(bounds) != 1:
        raise ValueError(f"{requirement!r} needs exactly one lower bound")
    marker = f"; {parsed.marker}" if parsed.marker else ""
    return f"{parsed.name}=={bounds[0]}{marker}"


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(requirement) for requirement in project["dependencies"]))
