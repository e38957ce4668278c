"""An environment of venv with pip, made without the three seconds that ensurepip compiles for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path


def environment(folder: Path) -> Path:
    """Of the tests' own Python, with the pip that these have; its site-packages."""
    venv = [os.path.realpath(sys.executable), "-I", "-m", "venv"]
    found = util.find_spec("pip")
    if found is None or found.origin is None:
        subprocess.run([*venv, folder], check=True)
        return _site(folder)
    subprocess.run([*venv, "--without-pip", folder], check=True)
    pip = Path(found.origin).parent
    # Of the same Python, and copied with their times: what is compiled of it holds.
    shutil.copytree(pip, _site(folder) / "pip")
    info = f"pip-{metadata.version('pip')}.dist-info"
    shutil.copytree(pip.with_name(info), _site(folder) / info)
    return _site(folder)


def _site(folder: Path) -> Path:
    (site,) = (folder / "lib").glob("python3*/site-packages")
    return site
