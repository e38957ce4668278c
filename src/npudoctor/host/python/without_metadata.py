"""Finds packages that can be imported but have no metadata: some images leave it out to save space."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files

# Modules whose name differs from that of their distribution (as PEP 503 normalizes it).
MODULES = {
    **dict.fromkeys(("mindspore-ascend", "mindspore-gpu"), "mindspore"),
    **dict.fromkeys(("paddlepaddle", "paddlepaddle-gpu"), "paddle"),
    **dict.fromkeys(("tensorflow-cpu", "tensorflow-gpu"), "tensorflow"),
    **dict.fromkeys(("opencv-python", "opencv-python-headless"), "cv2"),
    "absl-py": "absl",
    "google-pasta": "pasta",
    "grpcio": "grpc",
    "libclang": "clang",
    "pillow": "PIL",
    "protobuf": "google.protobuf",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "triton-ascend": "triton",
}
# Distributions that bring the same module; without metadata the module counts as the first of them.
_SAME_MODULE = (
    ("mindspore", "mindspore-ascend", "mindspore-gpu"),
    ("paddlepaddle", "paddlepaddle-gpu"),
    ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-rocm"),
    ("triton", "triton-ascend", "pytorch-triton", "pytorch-triton-rocm"),
    ("vllm", "vllm-empty"),
    (
        *("opencv-python", "opencv-python-headless"),
        *("opencv-contrib-python", "opencv-contrib-python-headless"),
    ),
)
# Libraries of CUDA lie in folders below nvidia/, and are no modules: nvidia-cudnn-cu12 is nvidia/cudnn.
_NVIDIA = pattern(r"nvidia-(\w[\w-]*?)(?:-cu\d+)?\Z")
_VERSION_FILES = ("version.py", "_version.py", "version/__init__.py", "__about__.py", "__init__.py")
_VERSION = pattern(
    r"""^[ \t]*(?:full_version|__version__|version)\b[^=\n]*=[ \t]*["'](\d[\w.+!-]*)["']""", re.M
)
_LIMIT = 1 << 18


def module_of(name: str) -> str:
    """The module that a distribution brings, guessed from its PEP 503 name."""
    return MODULES.get(name, name.replace("-", "_"))


def find_without_metadata(
    files: Files,
    folders: Sequence[tuple[str, frozenset[str]]],
    name: str,
    names_with_metadata: Collection[str],
) -> Optional[str]:
    """The path of a distribution's package or module in the first of these folders that has it.

    `folders`: each with the names in it. None if none has it, or if `names_with_metadata` has a distribution
    that brings the same module.
    """
    nvidia = _NVIDIA.match(name)
    same_module = next((group for group in _SAME_MODULE if name in group), (name,))
    if name != same_module[0] or any(other in names_with_metadata for other in same_module):
        return None
    if nvidia and any(other.startswith(f"nvidia-{nvidia[1]}") for other in names_with_metadata):
        return None
    path = f"nvidia/{nvidia[1].replace('-', '_')}" if nvidia else module_of(name).replace(".", "/")
    first = path.partition("/")[0]
    for folder, names in folders:
        for end in ("", ".py"):
            if f"{first}{end}" in names and _exists(files, f"{folder}/{path}{end}", bool(nvidia)):
                return f"{folder}/{path}{end}"
    return None


def _exists(files: Files, path: str, libraries: bool) -> bool:
    """Whether a path is a module, a package, or (`libraries`) a folder with libraries in lib/."""
    try:
        if path.endswith(".py"):
            return files.stat(path) is not None
        if libraries:
            return bool(files.names(f"{path}/lib"))
        return files.stat(f"{path}/__init__.py") is not None
    except CannotTell:
        return False


def read_version(files: Files, path: str) -> str:
    """The version in a package's own files, such as version.py; "" if they do not say."""
    for place in [path] if path.endswith(".py") else [f"{path}/{name}" for name in _VERSION_FILES]:
        entry = files.stat(place)
        text = (files.text(place, _LIMIT) or "") if entry is not None and entry.is_file else ""
        match = _VERSION.search(text)
        if match and "unknown" not in match[1]:  # setuptools asks its metadata
            return match[1]
    return ""
