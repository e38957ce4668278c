"""An environment full of packages, made here: as many distributions and files as those of real frameworks.

The numbers are those of the wheels on PyPI (torch 2.13.0, mindspore 2.10.0, paddlepaddle 3.3.1 and what they
require): lines of RECORD, modules among them, libraries among them. The files hold a few bytes each; what a
check looks at are their names and sizes.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTENT = b"pass\n"
# A library that is whole and holds nothing: an ELF header for this machine, and one part that is loaded.
_MACHINE = {"x86_64": 62, "aarch64": 183}.get(platform.machine(), 62)
LIBRARY = struct.pack(
    "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, _MACHINE, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0
) + struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 120, 120, 4096)
IN_ONE_FOLDER = 40  # files


@dataclass(frozen=True)
class Package:
    """One distribution; `requires` as in its metadata, by the names of others here."""

    name: str
    version: str
    lines: int
    modules: int
    libraries: int = 0
    requires: str = ""
    module: str = ""

    @property
    def folder(self) -> str:
        """Of its modules."""
        return self.module or self.name.replace("-", "_")

    def files(self) -> Iterator[str]:
        """The paths of all, modules first; the rest are headers and data."""
        yield f"{self.folder}/__init__.py"
        for number in range(self.modules):
            yield f"{self.folder}/{_place(number)}module{number}.py"
        for number in range(self.libraries):
            yield f"{self.folder}/part{number // IN_ONE_FOLDER}/lib{number}.so"
        for number in range(self.lines - self.modules - self.libraries - 5):
            yield f"{self.folder}/include/part{number // IN_ONE_FOLDER}/data{number}.h"


def _place(number: int) -> str:
    """The folders of a module; of 100 of torch 2.13.0, 3 lie at the top, 30, 34, 33 one, two, three below."""
    rank, folder = number % 100, f"part{number // IN_ONE_FOLDER}/"
    return "" if rank < 3 else folder + "inner/" * (rank >= 33) + "inmost/" * (rank >= 67)


PACKAGES = (
    Package(
        "torch",
        "2.13.0",
        14623,
        2371,
        12,
        "filelock fsspec jinja2 networkx sympy>=1.13.3 typing-extensions>=4.10.0",
    ),
    Package(
        "mindspore",
        "2.10.0",
        14672,
        2142,
        151,
        "asttokens astunparse dill numpy<2 packaging pillow protobuf>=3.13 psutil safetensors scipy>=1.5.4",
    ),
    Package(
        "paddlepaddle",
        "3.3.1",
        4650,
        1163,
        18,
        "httpx networkx numpy>=1.21 opt-einsum==3.3.0 pillow protobuf>=3.20.2 safetensors typing-extensions",
        "paddle",
    ),
    Package("anyio", "4.16.0", 100, 46, 0, "idna typing-extensions"),
    Package("asttokens", "3.0.2", 23, 7),
    Package("astunparse", "1.6.3", 15, 4, 0, "six wheel"),
    Package("certifi", "2026.10.18", 18, 5),
    Package("dill", "0.4.1", 101, 46),
    Package("filelock", "4.2.11", 53, 23),
    Package("fsspec", "2026.9.0", 121, 58),
    Package("h11", "0.16.0", 29, 11),
    Package("httpcore", "1.0.9", 68, 31, 0, "certifi h11"),
    Package("httpx", "0.28.1", 54, 23, 0, "anyio certifi httpcore idna"),
    Package("idna", "3.20", 28, 10),
    Package("jinja2", "3.1.6", 57, 25, 0, "markupsafe"),
    Package("markupsafe", "3.0.4", 14, 2, 1),
    Package("mpmath", "1.3.0", 180, 87),
    Package("networkx", "3.6.1", 1182, 580),
    Package("numpy", "1.26.4", 1407, 489, 22),
    Package("opt-einsum", "3.3.0", 57, 25, 0, "numpy"),
    Package("packaging", "26.3", 52, 22),
    Package("pillow", "13.0.0", 237, 97, 26, "", "PIL"),
    Package("protobuf", "7.36.2", 122, 58, 1, "", "google"),
    Package("psutil", "7.2.2", 27, 10, 1),
    Package("safetensors", "0.8.0", 23, 7, 1),
    Package("scipy", "1.15.3", 2399, 973, 114, "numpy<2.5,>=1.23.5"),
    Package("setuptools", "78.1.0", 578, 229),
    Package("six", "1.17.0", 8, 1),
    Package("sympy", "1.14.0", 3105, 1533, 0, "mpmath<1.4,>=1.1.0"),
    Package("typing-extensions", "4.16.0", 7, 1),
    Package("wheel", "0.48.0", 37, 15),
)


def fill(site: Path) -> None:
    """Install all of them into a site-packages."""
    for package in PACKAGES:
        info = site / f"{package.name.replace('-', '_')}-{package.version}.dist-info"
        info.mkdir()
        requires = "".join(f"Requires-Dist: {one}\n" for one in package.requires.split())
        head = f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n"
        (info / "METADATA").write_text(f"{head}{requires}\n", encoding="ascii")
        (info / "INSTALLER").write_text("pip\n", encoding="ascii")
        (info / "RECORD").write_text("".join(_placed(site, package)), encoding="ascii")


def _placed(site: Path, package: Package) -> Iterator[str]:
    """The lines of its RECORD, each file being there."""
    digest = "sha256=" + "A" * 43
    made: set[Path] = set()
    for path in package.files():
        folder = (site / path).parent
        if folder not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made.add(folder)
        content = LIBRARY if path.endswith(".so") else CONTENT
        (site / path).write_bytes(content)
        yield f"{path},{digest},{len(content)}\n"
    name = f"{package.name.replace('-', '_')}-{package.version}.dist-info"
    yield from (f"{name}/{one},,\n" for one in ("METADATA", "INSTALLER", "RECORD"))
