"""Machines with a CANN and Python packages, for the tests of the checks of versions."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from npudoctor.testing import Content, package_files

LATEST = "/usr/local/Ascend/ascend-toolkit/latest"


def cann(version: Optional[str], component: str = "") -> dict[str, Content]:
    """A toolkit that says these numbers; None: one that does not say its product version."""
    lines = [f"Version={component}"] if component else []
    lines += [f"version_dir={version}"] if version and component else []
    files: dict[str, Content] = {f"{LATEST}/compiler/version.info": "\n".join(lines) + "\n"}
    if version:
        info = f"package_name=Ascend-cann-toolkit\nversion={version}\narch=x86_64\n"
        files[f"{LATEST}/x86_64-linux/ascend_toolkit_install.info"] = info
    return files


def installed(**versions: str) -> dict[str, Content]:
    """Packages by name and version; an underscore stands for a hyphen."""
    files: dict[str, Content] = {}
    for name, version in versions.items():
        files.update(package_files(name.replace("_", "-"), version))
    return files


def site(folder: Path, text: str, name: str = "site.toml") -> str:
    """A directory with a file of rows that this site added."""
    folder.mkdir(exist_ok=True, mode=0o755)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return str(folder)
