"""Broken and working environments: of which base, how made, and what of it the doctor must name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .environment_bases import MINDSPORE, MINDSPORE_NEW, PADDLE, PADDLE_39, TENSORFLOW, TORCH, Base
from .environment_steps import (
    Archive,
    BaseGone,
    CopyOut,
    Cut,
    CutCode,
    Download,
    Install,
    Into,
    Limit,
    Move,
    OtherPython,
    Remove,
    Step,
    Uninstall,
    Variable,
    Write,
    Zeros,
)

FRAMEWORKS = {
    PADDLE_39: "paddle",
    PADDLE: "paddle",
    MINDSPORE: "mindspore",
    MINDSPORE_NEW: "mindspore",
    TENSORFLOW: "tensorflow",
    TORCH: "torch torchvision torchaudio",
}

# Where the distribution has another name.
DISTRIBUTIONS = {"paddle": "paddlepaddle", "tensorflow": "tensorflow-cpu"}


@dataclass(frozen=True)
class Case:
    """One environment. `names`: what is broken, any of these words; none where it works.

    `warned`: the import itself works, so that a warning is enough. `quick`: one of the dozen in CI.
    """

    name: str
    base: Base
    steps: tuple[Step, ...]
    names: tuple[str, ...] = ()
    warned: bool = False
    quick: bool = False

    @property
    def frameworks(self) -> list[str]:
        """What is imported."""
        return FRAMEWORKS[self.base].split()

    @property
    def distributions(self) -> list[str]:
        """The first of them, as the head of a report names it."""
        return [DISTRIBUTIONS.get(self.frameworks[0], self.frameworks[0])]


MISSING = {
    MINDSPORE: "asttokens astunparse dill numpy packaging",
    MINDSPORE_NEW: "pillow protobuf psutil safetensors scipy six",
    PADDLE: "httpx idna numpy opt_einsum pillow protobuf safetensors setuptools typing_extensions",
    PADDLE_39: "astor decorator",
    TENSORFLOW: "absl-py flatbuffers gast ml_dtypes requests urllib3 wrapt",
    TORCH: "nvidia-cublas-cu12 nvidia-cudnn-cu12 nvidia-cusparse-cu12 nvidia-nccl-cu12 pillow sympy"
    " typing_extensions",
}
SPARE = {
    MINDSPORE: "setuptools wheel",
    PADDLE: "networkx certifi",
    TENSORFLOW: "keras",
    TORCH: "fsspec filelock jinja2 networkx nvidia-cusolver-cu12 nvidia-nvtx-cu12 setuptools triton",
}
# Of those above, in CI.
QUICK = ("dill", "idna", "astor", "wheel")


def _without(lists: dict[Base, str], broken: bool) -> Iterator[Case]:
    for base, words in lists.items():
        for name in words.split():
            names = (name, name.replace("_", "-")) if broken else ()
            yield Case(f"{base.name}-without-{name}", base, (Uninstall(name),), names, quick=name in QUICK)


def _bases() -> Iterator[Case]:
    for base in FRAMEWORKS:
        yield Case(f"{base.name}-as-installed", base, (), quick=base.cheap)


_TWO_NUMPY = (
    Move("numpy-1*.dist-info", "kept"),
    Install("numpy==2.3.5"),
    Move("kept", "numpy-1.26.4.dist-info"),
)

VERSIONS = (
    Case("torch-without-numpy", TORCH, (Uninstall("numpy"),), ("numpy",)),
    Case("mindspore-new-numpy-2", MINDSPORE_NEW, (Install("numpy==2.2.6"),), ("numpy",)),
    Case("mindspore-numpy-2", MINDSPORE, (Install("numpy==2.3.5"),), ("numpy",), warned=True, quick=True),
    Case("scipy-for-a-later-numpy", MINDSPORE, (Install("numpy==1.23.5"),), ("numpy",)),
    Case("paddle-old-protobuf", PADDLE, (Install("protobuf==3.19.6"),), ("protobuf",)),
    Case(
        "torch-old-typing-extensions",
        TORCH,
        (Install("typing_extensions==4.1.1"),),
        ("typing-extensions", "typing_extensions"),
    ),
    Case("torchvision-of-another-torch", TORCH, (Install("torchvision==0.19.1"),), ("torchvision",)),
    Case("torchaudio-of-another-torch", TORCH, (Install("torchaudio==2.4.1"),), ("torchaudio",)),
    Case("torchaudio-newest", TORCH, (Install("torchaudio==2.11.0"),), ("torchaudio",)),
    Case("numpy-twice", MINDSPORE, _TWO_NUMPY, ("numpy",)),
    Case(
        "protobuf-in-cpp",
        MINDSPORE,
        (Variable("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "cpp"),),
        ("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION",),
        quick=True,
    ),
)

FILES = (
    Case("torch-no-module", TORCH, (Remove("torch"),), ("torch",)),
    Case("torch-no-init", TORCH, (Remove("torch/__init__.py"),), ("torch",)),
    Case("torch-moved-aside", TORCH, (Move("torch", "~orch"),), ("torch",)),
    Case("torch-library-cut", TORCH, (Cut("torch/lib/libtorch_cpu.so", 0.5),), ("libtorch_cpu",)),
    Case("torch-library-empty", TORCH, (Cut("torch/lib/libc10.so", 0),), ("libc10",)),
    Case("torch-no-functional", TORCH, (Remove("torch/nn/functional.py"),), ("torch",)),
    Case("torch-empty-functional", TORCH, (Cut("torch/nn/functional.py", 0),), ("torch",)),
    Case("torch-no-cudnn-files", TORCH, (Remove("nvidia/cudnn"),), ("cudnn",)),
    Case("typing-extensions-no-file", TORCH, (Remove("typing_extensions.py"),), ("typing",)),
    Case("mindspore-no-init", MINDSPORE, (Remove("mindspore/__init__.py"),), ("mindspore",)),
    Case("mindspore-no-extension", MINDSPORE, (Remove("mindspore/_c_expression*.so"),), ("mindspore",)),
    Case("mindspore-no-core", MINDSPORE, (Remove("mindspore/lib/libmindspore_core.so*"),), ("mindspore",)),
    Case("mindspore-new-no-common", MINDSPORE_NEW, (Remove("mindspore/common"),), ("mindspore",)),
    Case("numpy-no-core", MINDSPORE, (Remove("numpy/core/_multiarray_umath*.so"),), ("numpy",), quick=True),
    Case("numpy-core-cut", MINDSPORE, (Cut("numpy/core/_multiarray_umath*.so", 0.5),), ("numpy",)),
    Case("numpy-no-libraries", MINDSPORE, (Remove("numpy.libs"),), ("numpy",)),
    Case("scipy-no-libraries", MINDSPORE, (Remove("scipy.libs"),), ("scipy",)),
    Case("scipy-no-module", MINDSPORE, (Remove("scipy"),), ("scipy",)),
    Case("pillow-no-extension", MINDSPORE, (Remove("PIL/_imaging.*.so"),), ("pillow",)),
    Case("paddle-no-library", PADDLE, (Remove("paddle/base/libpaddle.so"),), ("paddle",), quick=True),
    Case("paddle-library-cut", PADDLE, (Cut("paddle/base/libpaddle.so", 0.3),), ("paddle",)),
    Case("paddle-39-no-nn", PADDLE_39, (Remove("paddle/nn/__init__.py"),), ("paddle",)),
    Case("tensorflow-no-python", TENSORFLOW, (Remove("tensorflow/python/framework"),), ("tensorflow",)),
)

OTHERS = (
    Case("packages-of-another-python", PADDLE, (OtherPython("3.9"),), ("3.9",), quick=True),
    Case("python-gone", PADDLE, (BaseGone(),), ("gone",)),
    Case("python-gone-another-there", MINDSPORE, (BaseGone(),), ("gone",)),
    Case("own-random", MINDSPORE, (Write("job/random.py", "x = 1\n"),), ("random",)),
    Case("own-numpy", MINDSPORE, (Write("job/numpy.py", "x = 1\n"),), ("numpy",)),
    Case("own-torch", TORCH, (Write("job/torch/__init__.py"),), ("torch",)),
    Case("own-typing", PADDLE, (Write("job/typing.py"),), ("typing",)),
    Case("own-logging", PADDLE, (Write("job/logging.py"),), ("logging",)),
    Case(
        "numpy-in-pythonpath",
        PADDLE,
        (Write("job/lib/numpy/__init__.py"), Variable("PYTHONPATH", "{job}/lib")),
        ("numpy",),
    ),
)

_LFS = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 165521\n"
)
_LED = Variable("LD_LIBRARY_PATH", "{job}/so")
_OLD = Variable("PYTHONPATH", "{job}/lib")
_NVJITLINK = Download("nvidia-nvjitlink-cu12==12.1.105")
_FOR_310 = ("--python-version", "3.10")
_FOR_MUSL = ("--python-version", "3.12", "--platform", "musllinux_1_2_x86_64")

# What the shell does to an environment that pip finds well.
LOADER = (
    Case("gomp-of-lfs", PADDLE, (Write("job/so/libgomp.so.1", _LFS), _LED), ("libgomp",), quick=True),
    Case("gomp-empty", MINDSPORE, (Write("job/so/libgomp.so.1"), _LED), ("libgomp",)),
    Case("stdcxx-of-lfs", MINDSPORE_NEW, (Write("job/so/libstdc++.so.6", _LFS), _LED), ("libstdc++",)),
    Case("ffi-of-lfs", PADDLE, (Write("job/so/libffi.so.8", _LFS), _LED), ("libffi",)),
    Case(
        "dnnl-cut",
        PADDLE,
        (CopyOut("paddle/libs/libdnnl.so.3", "so/libdnnl.so.3", keep=0.5), _LED),
        ("libdnnl",),
    ),
    Case(
        "gomp-is-another-library",
        PADDLE,
        (CopyOut("paddle/libs/libgfortran.so.3", "so/libiomp5.so"), _LED),
        ("libiomp5",),
    ),
    Case(
        "nvjitlink-of-an-older-cuda",
        TORCH,
        (_NVJITLINK, Variable("LD_LIBRARY_PATH", "{job}/lib/nvidia/nvjitlink/lib")),
        ("nvjitlink",),
    ),
    Case(
        "nvjitlink-preloaded",
        TORCH,
        (_NVJITLINK, Variable("LD_PRELOAD", "{job}/lib/nvidia/nvjitlink/lib/libnvJitLink.so.12")),
        ("nvjitlink",),
    ),
    Case("little-address-space", PADDLE, (Limit("-v", 600),), ("ulimit -v",), quick=True),
    Case("little-address-space-cuda", TORCH, (Limit("-v", 2500),), ("ulimit -v",)),
    Case("little-data", MINDSPORE, (Limit("-d", 100),), ("ulimit -d",)),
)

VARIABLES = (
    Case("enum34-in-pythonpath", PADDLE_39, (Download("enum34==1.1.10"), _OLD), ("enum",)),
    Case("typing-in-pythonpath", PADDLE, (Download("typing==3.7.4.3"), _OLD), ("typing",), quick=True),
    Case("dataclasses-in-pythonpath", TORCH, (Download("dataclasses==0.6"), _OLD), ("dataclasses",)),
    Case("pathlib-in-pythonpath", TORCH, (Download("pathlib==1.0.1"), _OLD), ("pathlib",)),
    Case("asyncio-in-pythonpath", TORCH, (Download("asyncio==3.4.3"), _OLD), ("asyncio",)),
    Case("home-of-another", PADDLE, (Variable("PYTHONHOME", "/usr"),), ("PYTHONHOME",), quick=True),
    Case("platlibdir", PADDLE_39, (Variable("PYTHONPLATLIBDIR", "lib64"),), ("PYTHONPLATLIBDIR",)),
    Case("executable", PADDLE, (Variable("PYTHONEXECUTABLE", "/usr/bin/python3"),), ("PYTHONEXECUTABLE",)),
    Case("utf8-yes", PADDLE, (Variable("PYTHONUTF8", "yes"),), ("PYTHONUTF8",)),
    Case("warnings-are-errors", PADDLE, (Variable("PYTHONWARNINGS", "error"),), ("PYTHONWARNINGS",)),
)

WHEELS = (
    Case(
        "numpy-for-musl", PADDLE, (Download("numpy==2.2.6", _FOR_MUSL), Into("numpy")), ("musl",), quick=True
    ),
    Case("numpy-for-310", PADDLE, (Download("numpy==2.2.6", _FOR_310), Into("numpy")), ("3.10",)),
    Case("pillow-for-310", PADDLE, (Download("pillow==11.3.0", _FOR_310), Into("[pP][iI][lL]")), ("3.10",)),
)

HARMLESS = (
    Case(
        "gomp-of-aarch64", PADDLE, (CopyOut("paddle/libs/libdnnl.so.3", "so/libdnnl.so.3", machine=183), _LED)
    ),
    Case("library-path-of-nothing", PADDLE, (Variable("LD_LIBRARY_PATH", "/nowhere:{job}"),), quick=True),
    Case("library-path-of-the-system", TORCH, (Variable("LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu"),)),
    Case("a-copy-of-its-own", PADDLE, (CopyOut("paddle/libs/libdnnl.so.3", "so/libdnnl.so.3"), _LED)),
    Case("preload-of-nothing", MINDSPORE, (Variable("LD_PRELOAD", "/nowhere/libgomp.so.1"),)),
    Case("rpath-is-stronger", TORCH, (Write("job/so/libc10.so", _LFS), _LED)),
    Case("much-address-space", PADDLE, (Limit("-v", 6000),)),
    Case("configparser-in-pythonpath", TORCH, (Download("configparser==4.0.2"), _OLD)),
    Case("optimised", PADDLE, (Variable("PYTHONOPTIMIZE", "2"), Variable("PYTHONSAFEPATH", "1"))),
    Case("warnings-are-errors-torch", TORCH, (Variable("PYTHONWARNINGS", "error"),)),
)

WORKING = (
    Case("mindspore-scipy-old", MINDSPORE, (Install("scipy==1.11.4"),)),
    Case("mindspore-protobuf-6", MINDSPORE, (Install("protobuf==6.31.0"),)),
    Case("mindspore-beside-train", MINDSPORE, (Write("job/train.py"),)),
    Case("paddle-39-numpy-1", PADDLE_39, (Install("numpy==1.26.4"),)),
    Case("torch-numpy-1", TORCH, (Install("numpy==1.26.4"),)),
    Case("torch-beside-data", TORCH, (Write("job/data.json", "{}"),)),
    Case("torch-patched", TORCH, (Write("torch/version.py", "\n# patched here\n", append=True),)),
    Case("torch-more-modules", TORCH, (Write("torch/mine.py", "x = 1\n"),)),
    Case("torch-no-byte-code", TORCH, (Remove("torch/nn/__pycache__"),)),
)

_BACKEND = (
    Write("torch_mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch-mine\nVersion: 1.0\n"),
    Write("torch_mine-1.0.dist-info/entry_points.txt", "[torch.backends]\nmine = torch_mine:_autoload\n"),
)
_IN_FRONT = Variable("PYTHONPATH", "{job}/lib")
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"

_EXTENDED = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"

_PLUG_IN = "mindspore/lib/plugin"

# Where Python finds what, and what is in a file of the right name.
MODULES = (
    Case("torch-backend-gone", TORCH, _BACKEND, ("torch_mine",)),
    Case("torch-backend-link-gone", TORCH, (*_BACKEND, Write("__editable__.torch_mine-1.0.pth", "/gone\n")),
         ("torch_mine",)),
    Case("torch-backend-without-function", TORCH, (*_BACKEND, Write("torch_mine.py")), ("_autoload",)),
    Case("torch-link-gone", TORCH, (Uninstall("torch"), Write("torch.egg-link", "/gone\n.")), ("torch",)),
    Case("tensorflow-plug-in-no-library", TENSORFLOW, (Write("tensorflow-plugins/libx.so", _POINTER),),
         ("libx.so",)),
    Case("paddle-plug-in-no-library", PADDLE, (Write("paddle_custom_device/libx.so", _POINTER),),
         ("libx.so",), quick=True),
    Case("google-hidden", PADDLE, (Write("job/lib/google/__init__.py"), _IN_FRONT), ("google",), quick=True),
    Case("google-hidden-by-pth", PADDLE,
         (Write("job/lib/google/__init__.py"), Write("mine.pth", "{job}/lib\n")), ("google",)),
    Case("google-module-hidden", MINDSPORE_NEW, (Write("job/lib/google.py"), _IN_FRONT), ("google",)),
    Case("own-google", MINDSPORE_NEW, (Write("job/google/__init__.py"),), ("google",)),
    Case("pillow-hidden", PADDLE, (Write("job/lib/PIL/__init__.py"), _IN_FRONT), ("pil",)),
    Case("torch-code-cut", TORCH, (CutCode("torch/functional.py", 0.5),), ("functional",)),
    Case("numpy-code-cut", PADDLE, (CutCode("numpy/__init__.py", 0.7),), ("numpy",), quick=True),
    Case("typing-extensions-code-cut", PADDLE, (CutCode("typing_extensions.py", 0.2),), ("typing",)),
    Case("torch-zeros", TORCH, (Zeros("torch/functional.py"),), ("functional",)),
    Case("torch-library-zeros", TORCH, (Zeros("torch/lib/libc10.so"),), ("libc10",)),
    Case("numpy-core-zeros", PADDLE, (Zeros("numpy/_core/_multiarray_umath*.so"),), ("numpy",)),
    # MindSpore opens those of Ascend wherever it is, and the loader maps what the file does not have.
    Case("mindspore-plug-in-cut", MINDSPORE_NEW, (Cut(f"{_PLUG_IN}/libmindspore_asc*.so.2", 0.5),),
         ("libmindspore_asc",)),
    Case("mindspore-manager-cut", MINDSPORE, (Cut(f"{_PLUG_IN}/ascend/libmindspore_asc*_manager.so", 0.9),),
         ("libmindspore_ascend_res_manager",)),
    Case("mindspore-no-cpu", MINDSPORE, (Remove(f"{_PLUG_IN}/libmindspore_ops_host.so"),),
         ("libmindspore_ops_host",)),
    Case("mindspore-new-no-cpu", MINDSPORE_NEW, (Cut(f"{_PLUG_IN}/libmindspore_ops_cpu.so", 0),),
         ("libmindspore_ops_cpu",)),
    Case("torch-pointer", TORCH, (Write("torch/functional.py", _POINTER),), ("functional",)),
    Case("torch-module-cut", TORCH, (Cut("torch/functional.py", 0.5),), ("functional",)),
    Case("paddle-old-typing-extensions", PADDLE, (Install("typing_extensions==3.7.4.3"),), ("typing",)),
    Case("tensorflow-old-typing-extensions", TENSORFLOW, (Install("typing_extensions==3.10.0.2"),),
         ("typing",)),
)  # fmt: skip

# What looks like one of them and works.
ALIKE = (
    Case("torch-backend-there", TORCH, (*_BACKEND, Write("torch_mine.py", "def _autoload(): pass\n"))),
    Case("torch-backend-switched-off", TORCH, (*_BACKEND, Variable("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"))),
    Case("google-extended", PADDLE, (
        Write("job/lib/google/__init__.py", _EXTENDED),
        _IN_FRONT), quick=True),
    Case("google-in-two-places", PADDLE, (Write("job/lib/google/cloud/__init__.py"), _IN_FRONT)),
    Case("google-with-init", PADDLE, (Write("google/__init__.py"),)),
    Case("httpx-hidden", PADDLE, (Write("job/lib/httpx/__init__.py"), _IN_FRONT)),
    Case("httpx-in-zip", PADDLE, (Archive("httpx"),), quick=True),
    Case("no-metadata", PADDLE, (Remove("*.dist-info"),), quick=True),
    Case("metadata-of-paddle-alone", PADDLE, (Remove("[!p]*.dist-info"),)),
    Case("numpy-without-metadata", MINDSPORE_NEW, (Remove("numpy-*.dist-info"),)),
    Case("idle-sitecustomize", PADDLE, (Write("sitecustomize.py", "import os\nos.environ['A'] = '1'\n"),),
         quick=True),
    Case("torch-code-without-head", TORCH, (CutCode("torch/functional.py", 0),)),
    Case("mindspore-plug-in-empty", MINDSPORE_NEW, (Cut(f"{_PLUG_IN}/libmindspore_asc*.so.2", 0),)),
    Case("mindspore-plug-in-gone", MINDSPORE, (Remove(f"{_PLUG_IN}/libmindspore_ops_ascend.so"),)),
    Case("mindspore-gpu-cut", MINDSPORE_NEW, (Cut(f"{_PLUG_IN}/libmindspore_gpu.so.11.1", 0.5),)),
)  # fmt: skip

CASES = (
    *_bases(),
    *_without(MISSING, True),
    *_without(SPARE, False),
    *VERSIONS,
    *FILES,
    *OTHERS,
    *LOADER,
    *VARIABLES,
    *WHEELS,
    *HARMLESS,
    *WORKING,
    *MODULES,
    *ALIKE,
)
