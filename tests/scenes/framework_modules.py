"""Machines on which framework-modules says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.framework_modules import framework_modules as check
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files

LIB = "/opt/lib"
INFO = f"{SITE}/torch-2.13.0.dist-info"
NAMED = package_files("torch", "2.13.0")
BUILT: dict[str, Content] = {
    f"{SITE}/torch/__init__.py": "x = 1\n",
    f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": "x",
}
TORCH: dict[str, Content] = {**NAMED, **BUILT}
EDITABLE: dict[str, Content] = {**NAMED, f"{SITE}/__editable__.torch-2.13.0.pth": f"{LIB}\n"}
SOURCE: dict[str, Content] = {f"{LIB}/torch/__init__.py": "x = 1\n"}
PADDLE: dict[str, Content] = {
    **package_files("paddlepaddle", "3.3.1", "Requires-Dist: protobuf"),
    **package_files("protobuf", "6.33.0"),
    f"{SITE}/protobuf-6.33.0.dist-info/RECORD": "google/protobuf/__init__.py,sha256=x,1\n",
    f"{SITE}/google/protobuf/__init__.py": "__version__ = '6.33.0'\n",
}
BACKEND: dict[str, Content] = {
    **package_files("torch_mine", "1.0"),
    f"{SITE}/torch_mine-1.0.dist-info/entry_points.txt": "[torch.backends]\nmine = torch_mine:_autoload\n",
}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    link: dict[str, Content] = {f"{SITE}/torch.egg-link": f"{LIB}\n."}
    mine: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": "def other(): ...\n"}
    for files in ({}, TORCH, {**NAMED, **link}, EDITABLE, {**TORCH, **BACKEND}, {**TORCH, **BACKEND, **mine}):
        yield ask(check, fake_host(files))
    for code in (
        "raise SystemExit",
        "raise OSError",
        "import sys\nsys.modules['torch'] = None",
        "import mine",
    ):
        yield ask(check, fake_host({**TORCH, f"{SITE}/sitecustomize.py": code}))
    yield ask(check, fake_host({**EDITABLE, **SOURCE}, search_path=(SITE, LIB)))
    hiding: dict[str, Content] = {**PADDLE, f"{LIB}/google/__init__.py": ""}
    for more in ({}, {f"{LIB}/google/__init__.py": "def mine(): ...\n"}):
        yield ask(
            check,
            fake_host({**hiding, **more}, search_path=(LIB, SITE), variables={"PYTHONPATH": LIB}),
        )
    plug_in: dict[str, Content] = {f"{SITE}/tensorflow-plugins/libx.so": "version https://git-lfs\n"}
    yield ask(check, fake_host({**package_files("tensorflow-cpu", "3.0"), **plug_in}))
    part: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": "from . import _C\ndef _autoload(): ...\n"}
    yield ask(check, fake_host({**TORCH, **BACKEND, **part}))
