"""Pin what packages are built with and what they carry, and what builds the site, in tools/locked.

For each Python the newest version that suits it, with the hashes of its files. By uv, which resolves for
other Pythons and machines than the one it runs on; `make locked` installs it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
UV = "uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate"
OLDEST = "3.9"
SITE = ("mkdocs-material", "jieba")  # jieba parts Chinese into words, for the search
# What we carry is installed into the environment of a job, where typer 0.29 would bring a pydantic of its own
# choice, compiled for each Python and machine. Only help and errors are typer's: an older one does as well.
CARRIED = "typer==0.28.0; python_version >= '3.10'"
EXTRAS = {"one-file": ("fleet",), "wheelhouse": ("fast", "fleet", "gpu", "secrets")}


def main() -> None:
    """Write the four files."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    lock("build", "-", stdin="\n".join(build))
    lock("site", "-", stdin="\n".join(SITE))
    for name, extras in EXTRAS.items():
        lock(name, "pyproject.toml", *(f"--extra={extra}" for extra in extras))


def lock(name: str, *source: str, stdin: str = "") -> None:
    """One of them; the source is a file with requirements, - for those of standard input."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as carried:
        carried.write(f"{CARRIED}\n")
        carried.flush()
        command = [
            sys.executable,
            "-m",
            *UV.split(),
            f"--python-version={OLDEST}",
            f"--constraint={carried.name}",
            *source,
            "--output-file",
            f"tools/locked/{name}.txt",
        ]
        subprocess.run(command, cwd=ROOT, input=stdin, text=True, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
