"""Real wheels from the package index, kept outside the checkout.

The big ones (torch for CUDA: 900 MB) are pared: of the wheel on the index only the metadata and the files
that checks read are fetched, unchanged, and put into a wheel of the same name, which pip installs as usual.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import threading
import time
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import mindspore_env
from .mindspore_env import Unavailable, run

PIP = "pip==25.3"  # earlier ones fetch the whole wheel to say where it is; later ones left Python 3.9 behind
WHOLE_BELOW = 5 << 20
WHOLE_WHEN_ASKED = 40 << 20
BLOCK = 1 << 18
PAUSES = (1, 5, 15, 0)  # seconds after each attempt that failed
LOCK = threading.Lock()
# No manylinux tag but these for other machines: pip takes what it is told, not what would run.
GLIBC = ("2_17", "2_24", "2_26", "2_27", "2_28", "2_31", "2_34", "2_35")
KEPT = re.compile(
    r"""[^/]+\.dist-info/.*
    | [^/]+/(__init__|version|_version)\.py
    | torch/_C\..*\.so | torch/lib/lib(c10|torch|shm)\.so | torch/utils/cpp_extension\.py
    | torch_npu/_C\..*\.so
    | torchvision/_C\.so | triton/([^/]+/)?[^/]+\.py
    | mindspore/_c_expression\..*\.so | mindspore/(run_check/)?_check_version\.py
    | numpy/(_core|core)/_multiarray_umath\..*\.so | scipy/linalg/_fblas\..*\.so
    | paddle/version/__init__\.py
    | tensorboard/default\.py""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Foreign:
    """A wheel for another machine or Python than the environment's: put there by `pip install --target`."""

    requirement: str
    machine: str = "x86_64"
    python: str = ""


class Remote(io.RawIOBase):
    """A file on the index as a file to seek in; only the blocks that are read are fetched."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.size = int(fetched(url, "0-0")[1].rpartition("/")[2])
        self._at = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self._at + size)
        if end <= self._at:
            return b""
        first, last = self._at // BLOCK, (end - 1) // BLOCK
        missing = [number for number in range(first, last + 1) if number not in self._blocks]
        if missing:
            self._fetch(missing[0], missing[-1])
        data = b"".join(self._blocks[number] for number in range(first, last + 1))
        start, self._at = self._at - first * BLOCK, end
        return data[start : start + end - first * BLOCK - start]

    def _fetch(self, first: int, last: int) -> None:
        data = fetched(self.url, f"{first * BLOCK}-{min(self.size, (last + 1) * BLOCK) - 1}")[0]
        for number in range(first, last + 1):
            self._blocks[number] = data[(number - first) * BLOCK : (number - first + 1) * BLOCK]


def fetched(url: str, span: str) -> tuple[bytes, str]:
    """These bytes of a file on the index, and which of how many; a network that fails is asked again."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={span}"})
    for pause in PAUSES:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                if answer.status != 206:
                    raise Unavailable(f"{url}: the index does not give parts of a file")
                return answer.read(), answer.headers["Content-Range"]
        except (OSError, http.client.HTTPException) as error:
            why = error
            time.sleep(pause)
    raise Unavailable(f"{url}: {why}") from why


def cache() -> Path:
    """Where all of this is kept."""
    return mindspore_env.cache() / "wheels"


def pip() -> Path:
    """The interpreter of an environment that has nothing but the pip that installs into the others."""
    folder = cache() / PIP.replace("==", "-")
    python = folder / "bin" / "python"
    with LOCK:
        if not (folder / "whole").exists():
            made_of = mindspore_env.interpreter(mindspore_env.PYTHON_VERSION)
            run("venv failed", made_of, "-m", "venv", folder)
            run(f"{PIP} can not be installed", python, "-m", "pip", "install", "--quiet", PIP)
            (folder / "whole").touch()
    return python


def foreign_tags(wanted: Foreign, python: str) -> list[str]:
    """The options with which pip takes wheels for that machine and Python."""
    platforms = [f"manylinux_{glibc}_{wanted.machine}" for glibc in GLIBC]
    # As in the names of the time before they named a version of glibc.
    platforms += [f"{name}_{wanted.machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1")]
    platforms.append(f"linux_{wanted.machine}")
    options = [f"--platform={platform}" for platform in platforms]
    return [*options, f"--python-version={wanted.python or python}", "--implementation=cp"]


def resolve(
    requirements: Sequence[str], kind: str, there: Sequence[str], options: Sequence[str]
) -> list[str]:
    """Where on the index the wheels are that pip would install into this kind of Python; asked once for each
    kind, and without fetching them."""
    known = _resolved({})
    keys = {one: f"{one} for {kind}" for one in requirements}
    new = [one for one in requirements if keys[one] not in known]
    if new:
        urls = _asked(new, there, options)
        known = _resolved({keys[one]: urls[canonicalize_name(Requirement(one).name)] for one in new})
    return [known[keys[one]] for one in requirements]


def _resolved(more: Mapping[str, str]) -> dict[str, str]:
    """What is known of earlier answers, with more of them."""
    path = cache() / "resolved.json"
    with LOCK:
        known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if more:
            known.update(more)
            path.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return known


def _asked(requirements: Sequence[str], there: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    choice = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    asking = ["--use-feature=fast-deps", "--quiet", "--report=-"]
    command = [str(pip()), "-m", "pip", *there, "install", *choice, *asking, *options, *requirements]
    said = run(f"{', '.join(requirements)}: not to be had", *command)
    found = [(one["metadata"]["name"], one["download_info"]["url"]) for one in json.loads(said)["install"]]
    return {canonicalize_name(name): str(url) for name, url in found}


def fetch(url: str, whole: bool) -> Path:
    """The wheel as a file to install: pared where it is big, unless small enough and wanted whole."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    pared, entire = (cache() / "files" / kind / name for kind in ("pared", "whole"))
    if pared.exists() and not whole:
        return pared
    if entire.exists() and (whole or entire.stat().st_size < WHOLE_BELOW):
        return entire
    with _opened(url) as source:
        size = source.seek(0, os.SEEK_END)
        path = entire if size < (WHOLE_WHEN_ASKED if whole else WHOLE_BELOW) else pared
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{threading.get_ident()}.part")
            source.seek(0)
            if path == entire:
                part.write_bytes(source.read())
            else:
                pare(source, part)
            part.rename(path)
    return path


def _opened(url: str) -> IO[bytes]:
    """A wheel of the index, or of a folder that this machine's pip is told of."""
    local = urlsplit(url)
    return open(unquote(local.path), "rb") if local.scheme == "file" else Remote(url)  # type: ignore[return-value]


def pare(wheel: IO[bytes], path: Path) -> None:
    """Write a wheel with the kept files of a remote one, each as it is there."""
    # Stored: what is installed once needs no compression.
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        for info in source.infolist():
            if KEPT.fullmatch(info.filename):
                kept = zipfile.ZipInfo(info.filename, info.date_time)
                kept.external_attr = info.external_attr
                target.writestr(kept, source.read(info))
