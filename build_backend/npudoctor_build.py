"""The build backend: setuptools, after the message catalogues, the table of `explain`, that of plain command
lines, the completion for shells and the manual pages were made.

The .po files and the signatures are in git, what is made of them is not. Made here, and not by the Makefile,
it reaches everybody: `pip install .`, the editable install, the sdist and the wheel.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Optional

import polib
from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from npudoctor_archives import quick, steady

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "compile_catalogues",
    "compile_plain_table",
    "compile_share",
    "compile_signatures",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Optional[dict[str, Any]]
ROOT = Path(__file__).resolve().parent.parent
# Five lines for everybody's first `make run`, about a table that an editable install needs: without it uv
# writes into the command which Python built it.
warnings.filterwarnings("ignore", message=r"Support for `\[tool\.distutils\]`")


def compile_catalogues(root: Path = ROOT) -> list[Path]:
    """Compile every catalogue of the package and return the .mo files."""
    compiled = []
    for source in sorted(root.glob("src/npudoctor/locale/*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        polib.pofile(str(source), encoding="utf-8").save_as_mofile(str(target))
        compiled.append(target)
    return compiled


def _run_package(root: Path, code: str) -> None:
    """Run code that imports the package of this tree, in a process of its own: another one may be installed
    here. What it needs lies where it does for us, which in a build environment of pip's PYTHONPATH says."""
    ours = [path for path in sys.path if path]
    start = "import sys; sys.path[:0] = sys.argv[1:]; "
    subprocess.run([sys.executable, "-I", "-B", "-c", start + code, str(root / "src"), *ours], check=True)


def compile_signatures(root: Path = ROOT) -> Path:
    """Work out what `explain` looks for, and return the file."""
    _run_package(root, "from npudoctor.explain.signatures.prepared import bring_up_to_date as go; go()")
    return root / "src" / "npudoctor" / "explain" / "table.json"


def compile_plain_table(root: Path = ROOT) -> Path:
    """Make the table by which plain command lines are read without typer, and return the file."""
    _run_package(root, "from npudoctor.cli.companions.share import write_plain_table as write; write()")
    return root / "src" / "npudoctor" / "cli" / "arguments" / "plain.json"


def compile_share(root: Path = ROOT) -> list[Path]:
    """Write completion and manual pages, after all else was made, and return the files."""
    folder = root / "share"
    shutil.rmtree(folder, ignore_errors=True)
    for language in ("en", "zh"):
        code = f"from npudoctor.core import messages; messages.activate({language!r}); "
        _run_package(
            root,
            f"{code}from npudoctor.cli.companions.share import write; write({str(folder)!r}, {language!r})",
        )
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _prepare() -> None:
    compile_catalogues()
    compile_signatures()
    compile_plain_table()
    compile_share()
    # setuptools never empties its scratch folder: a check that was deleted since would be in the next wheel.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the source distribution."""
    _prepare()
    name = build_meta.build_sdist(sdist_directory, config_settings)
    steady(Path(sdist_directory) / name)
    return name


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel."""
    _prepare()
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    steady(Path(wheel_directory) / name)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the editable wheel, which points back to this tree."""
    _prepare()
    with warnings.catch_warnings():
        # Seven lines for everybody's first `make run`, about folders that this tree has none of.
        warnings.filterwarnings("ignore", message="Editable installation")
        name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    quick(Path(wheel_directory) / name)
    return name


if __name__ == "__main__":
    for path in (*compile_catalogues(), compile_signatures(), compile_plain_table(), *compile_share()):
        print(path.relative_to(ROOT))
