"""Environments of which the remedy counts: what is typed as it is shown must bring the framework back."""

from __future__ import annotations

from collections.abc import Iterator

from .environment_bases import PADDLE, PADDLE_39
from .environment_case import Case
from .environment_ruins import (
    Dangle,
    IntoFolder,
    Machine,
    Managed,
    Merge,
    MoveOut,
    NoEnsurepip,
    UpperLayer,
    Uv,
)
from .environment_steps import Cut, Download, Install, Move, Remove, Step, Uninstall, Variable, Write

_CORE = "numpy/_core/_multiarray_umath*.so"
_TORN: tuple[Step, ...] = (Remove(_CORE),)
_NO_PIP = Uninstall("pip")
_AARCH64 = (
    "--python-version",
    "3.12",
    "--platform",
    "manylinux_2_28_aarch64",
    "--platform",
    "manylinux2014_aarch64",
)
_LIB = Variable("PYTHONPATH", "{job}/lib")
_PADDLE = (MoveOut("paddle*"), MoveOut("_foo.*"))  # both are of its wheel


def _pips() -> Iterator[Case]:
    """What became of pip, beside a numpy without its core."""
    states: dict[str, tuple[Step, ...]] = {
        "well": (),
        "uninstalled": (_NO_PIP,),
        "uninstalled-uv-there": (_NO_PIP, Uv()),
        "folder-gone": (Remove("pip"),),
        "no-metadata": (Remove("pip-*.dist-info"),),
        "vendored-gone": (Remove("pip/_vendor/requests"),),
        "vendored-gone-uv-there": (Remove("pip/_vendor/requests"), Uv()),
        "module-cut": (Cut("pip/_internal/commands/install.py", 0.5),),
        "module-empty": (Cut("pip/_internal/cli/main.py", 0),),
        "resolver-gone": (Remove("pip/_vendor/resolvelib"),),
        "too-old": (Install("pip==9.0.3"),),
        "too-old-uv-there": (Install("pip==9.0.3"), Uv()),
        "links": (Dangle("pip"), Dangle("pip-*.dist-info")),
        "uninstalled-no-ensurepip": (_NO_PIP, NoEnsurepip()),
        "uninstalled-no-ensurepip-uv-there": (_NO_PIP, NoEnsurepip(), Uv()),
        "folder-gone-no-ensurepip": (Remove("pip"), NoEnsurepip()),
        "of-the-system": (Managed(),),
    }
    for name, steps in states.items():
        yield Case(f"pip-{name}", PADDLE, (*_TORN, *steps), ("numpy",))


PIPS = tuple(_pips())

RUINS = (
    Case("numpy-links", PADDLE, (Dangle("numpy"), Dangle("numpy-*.dist-info"), Dangle("numpy.libs")),
         ("numpy",)),
    Case("numpy-links-uv", PADDLE,
         (Dangle("numpy"), Dangle("numpy-*.dist-info"), Dangle("numpy.libs"), _NO_PIP, Uv()), ("numpy",)),
    Case("numpy-module-links", PADDLE, (Dangle("numpy"),), ("numpy",)),
    Case("numpy-module-links-uv", PADDLE, (Dangle("numpy"), _NO_PIP, Uv()), ("numpy",)),
    Case("typing-extensions-links", PADDLE,
         (Dangle("typing_extensions.py"), Dangle("typing_extensions-*.dist-info")), ("typing",)),
    Case("all-links", PADDLE, (Dangle("[!p]*"), Dangle("p[!i]*"), Dangle("pillow*")), ("links",)),
    Case("all-links-uv", PADDLE, (Dangle("*"), Uv()), ("links",)),
    Case("numpy-core-is-a-folder", PADDLE, (IntoFolder(_CORE),), ("numpy",)),
    Case("numpy-core-is-a-folder-uv", PADDLE, (IntoFolder(_CORE), _NO_PIP, Uv()), ("numpy",)),
    Case("numpy-init-is-a-folder", PADDLE, (IntoFolder("numpy/__init__.py"),), ("numpy",)),
    Case("numpy-no-record", PADDLE, (*_TORN, Remove("numpy-*.dist-info/RECORD")), ("numpy",)),
    Case("numpy-no-record-uv", PADDLE, (*_TORN, Remove("numpy-*.dist-info/RECORD"), _NO_PIP, Uv()),
         ("numpy",)),
    Case("numpy-no-metadata-file", PADDLE, (*_TORN, Remove("numpy-*.dist-info/METADATA")), ("numpy",)),
    Case("numpy-metadata-empty", PADDLE, (*_TORN, Cut("numpy-*.dist-info/METADATA", 0)), ("numpy",)),
    Case("numpy-metadata-empty-uv", PADDLE, (*_TORN, Cut("numpy-*.dist-info/METADATA", 0), _NO_PIP, Uv()),
         ("numpy",)),
    Case("numpy-record-cut", PADDLE, (*_TORN, Cut("numpy-*.dist-info/RECORD", 0.5)), ("numpy",)),
    Case("numpy-no-dist-info", PADDLE, (*_TORN, Remove("numpy-*.dist-info")), ("numpy",)),
    Case("paddle-no-dist-info", PADDLE,
         (Remove("paddle/base/libpaddle.so"), Remove("paddlepaddle-*.dist-info")),
         ("paddle",)),
    Case("paddle-no-version", PADDLE, (Remove("paddle/base/libpaddle.so"), Remove("paddle/version"),
         Remove("paddlepaddle-*.dist-info")), ("paddle",)),
    Case("paddle-links", PADDLE, (Dangle("paddle"), Dangle("paddlepaddle-*.dist-info")), ("paddle",)),
    Case("paddle-module-links", PADDLE, (Dangle("paddle"),), ("paddle",)),
    Case("paddle-moved-aside", PADDLE, (Move("paddle", "~addle"), Remove("paddlepaddle-*.dist-info")),
         ("paddle",)),
)  # fmt: skip

FOREIGN = (
    Case("numpy-for-aarch64", PADDLE, (Download("numpy==2.5.5", _AARCH64), Remove("numpy"), Merge()),
         ("numpy",)),
    Case("pillow-for-aarch64", PADDLE, (Download("pillow==13.0.0", _AARCH64), Remove("PIL"), Merge()),
         ("pillow",)),
    Case("safetensors-for-aarch64", PADDLE, (Download("safetensors==0.8.0", _AARCH64), Remove("safetensors"),
         Merge()), ("safetensors",)),
    Case("paddle-for-aarch64", PADDLE, (Machine("paddle/base/libpaddle.so"),), ("paddle",)),
    Case("paddle-library-for-aarch64", PADDLE, (Machine("paddle/libs/libdnnl.so.3"),), ("libdnnl",)),
)  # fmt: skip

# PYTHONPATH has the framework beside what is broken.
LED = (
    Case("all-in-pythonpath", PADDLE,
         (Remove(_CORE), MoveOut("[!p]*"), MoveOut("p[!i]*"), MoveOut("pillow*"), _LIB),
         ("numpy",)),
    Case("paddle-and-numpy-in-pythonpath", PADDLE,
         (Remove(_CORE), MoveOut("numpy*"), *_PADDLE, _LIB), ("numpy",)),
    Case("numpy-in-pythonpath-torn", PADDLE,
         (Download("numpy==2.5.5"), Write("job/lib/numpy/__init__.py", "import numpy._gone\n"), _LIB),
         ("numpy",)),
    Case("paddle-in-pythonpath-old-protobuf", PADDLE,
         (*_PADDLE, Download("protobuf==3.19.6"), _LIB), ("protobuf",)),
    Case("paddle-39-in-pythonpath-enum34", PADDLE_39,
         (*_PADDLE, Download("enum34==1.1.10"), _LIB), ("enum",)),
    Case("paddle-in-pythonpath-typing", PADDLE,
         (*_PADDLE, Download("typing==3.7.4.3"), _LIB), ("typing",)),
    Case("paddle-in-pythonpath-google-hidden", PADDLE,
         (*_PADDLE, Write("job/lib/google/__init__.py"), _LIB), ("google",)),
    Case("paddle-torn-in-pythonpath", PADDLE,
         (Remove("paddle/base/libpaddle.so"), *_PADDLE, _LIB), ("paddle",)),
)  # fmt: skip

LAYERS = (
    Case("lower-numpy-torn", PADDLE, (*_TORN, UpperLayer()), ("numpy",)),
    Case("lower-paddle-torn", PADDLE, (Remove("paddle/base/libpaddle.so"), UpperLayer()), ("paddle",)),
    Case("lower-numpy-gone", PADDLE, (Uninstall("numpy"), UpperLayer()), ("numpy",)),
    Case("paddle-editable-gone", PADDLE,
         (Remove("paddle"), Remove("paddlepaddle-*.dist-info/RECORD"),
          Write("__editable__.paddlepaddle-3.3.1.pth", "/gone/src\n")), ("paddle",)),
)  # fmt: skip

TWICE = (
    Case("numpy-twice", PADDLE,
         (Move("numpy-2*.dist-info", "kept"), Install("numpy==1.26.4"), Move("kept", "numpy-2.5.5.dist-info"),
          Remove("numpy/core/_multiarray_umath*.so")), ("numpy",)),
)  # fmt: skip

REMEDIES = {
    "pip": PIPS,
    "ruins": RUINS,
    "foreign": FOREIGN,
    "pythonpath": LED,
    "layers": LAYERS,
    "twice": TWICE,
}
# Of each kind one, in CI.
QUICK = (
    "pip-vendored-gone",
    "numpy-links",
    "numpy-for-aarch64",
    "paddle-and-numpy-in-pythonpath",
    "numpy-twice",
)
