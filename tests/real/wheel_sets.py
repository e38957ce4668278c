"""Which real wheels are put together, beside which CANN, and what the manual promises to say of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from .wheel_envs import Environment
from .wheels import Foreign

# What te of CANN requires, but NumPy and SciPy.
CANN_NEEDS = (
    "absl-py==2.1.0",
    "attrs==24.2.0",
    "cffi==1.17.1",
    "cloudpickle==3.0.0",
    "decorator==5.1.1",
    "ml-dtypes==0.5.1",
    "protobuf==4.25.3",
    "psutil==6.0.0",
    "sympy==1.13.3",
    "tornado==6.4.1",
)
MINDSPORE_NEEDS = (
    "asttokens==2.4.1",
    "astunparse==1.6.3",
    "dill==0.3.9",
    "packaging==24.1",
    "pillow==11.0.0",
    "safetensors==0.4.5",
)
# What vllm-ascend 0.15.0rc1 requires, but vLLM itself.
VLLM_NEEDS = (
    "torch==2.9.0",
    "torch-npu==2.9.0",
    "torchvision==0.24.0",
    "torchaudio==2.9.0",
    "triton-ascend==3.2.0",
)
NUMPY_1 = "numpy==1.26.4"
SETUPTOOLS = "setuptools==81.0.0"


def _environment(name: str, python: str, *requirements: Union[str, Foreign], **more: object) -> Environment:
    return Environment(name, python, requirements, **more)  # type: ignore[arg-type]


FITTING = {
    one.name: one
    for one in (
        _environment(
            "torch-2.1.0", "3.9", "torch==2.1.0", "torch-npu==2.1.0", "torchvision==0.16.0",
            "torchaudio==2.1.0", NUMPY_1, "scipy==1.13.1", SETUPTOOLS, *CANN_NEEDS,
        ),
        _environment(
            "torch-2.5.1", "3.10", "torch==2.5.1", "torch-npu==2.5.1", "torchvision==0.20.1",
            "torchaudio==2.5.1", NUMPY_1, "scipy==1.13.1", "triton==3.1.0", *CANN_NEEDS, whole=True,
        ),
        _environment(
            "torch-2.9.0", "3.11", "torch==2.9.0", "torch-npu==2.9.0", "torchvision==0.24.0",
            "torchaudio==2.9.0", "numpy==2.1.3", "scipy==1.14.1", "tensorboard==2.20.0", SETUPTOOLS,
            "opencv-python==4.12.0.88", *CANN_NEEDS, whole=True,
        ),
        _environment(
            "vllm-ascend-0.15.0rc1", "3.11", "vllm-ascend==0.15.0rc1", "vllm==0.15.0", *VLLM_NEEDS, NUMPY_1,
            "scipy==1.13.1", *CANN_NEEDS,
        ),
        _environment(
            "torch-2.12.0", "3.12", "torch==2.12.0", "torch-npu==2.12.0", "torchvision==0.27.0",
            "numpy==2.1.3", "scipy==1.14.1", "tensorboard==2.21.0", "setuptools==84.2.1", *CANN_NEEDS,
        ),
        _environment(
            "torch-2.9.0.post2", "3.13", "torch==2.9.0", "torch-npu==2.9.0.post2", "torchvision==0.24.0",
            "numpy==2.1.3", "scipy==1.14.1", *CANN_NEEDS,
        ),
        _environment(
            "mindspore-2.7.1", "3.10", "mindspore==2.7.1", NUMPY_1, "scipy==1.13.1", *CANN_NEEDS,
            *MINDSPORE_NEEDS,
        ),
        _environment(
            "mindspore-2.8.0", "3.11", "mindspore==2.8.0", NUMPY_1, "scipy==1.17.1", *CANN_NEEDS,
            *MINDSPORE_NEEDS,
        ),
        _environment(
            "mindspore-2.10.0", "3.11", "mindspore==2.10.0", "numpy==2.1.3", "scipy==1.14.1",
            *(one for one in CANN_NEEDS if not one.startswith("protobuf")), "protobuf==7.34.1",
            *MINDSPORE_NEEDS,
        ),
        _environment("paddle-3.2.0", "3.13", "paddlepaddle==3.2.0", "numpy==2.1.3"),
        _environment("triton-ascend-last", "3.11", "triton==3.2.0", then=("triton-ascend==3.2.0",)),
        _environment("numpy-2", "3.12", "numpy==2.4.6", "scipy==1.18.1"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Set:
    """An environment beside a CANN ("": none), and the codes of all findings of WARNING or above that are no
    echo of another, with their severity."""

    environment: Environment
    cann: str = ""
    # Checks that must have judged, and found nothing.
    judged: tuple[str, ...] = ()
    codes: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How a test is called."""
        return f"{self.environment.name}{f' CANN {self.cann}' if self.cann else ''}"


_TORCH = ("torch-npu", "torch-family", "numpy-version", "conflicting-packages", "interpreter", "libstdcxx")
_MINDSPORE = ("mindspore-cann", "scipy-version", "numpy-version", "conflicting-packages", "libstdcxx")
_CANN = ("cann-install", "cann-env", "te-topi", "cann-python-deps")

FIT = [
    Set(FITTING["torch-2.1.0"], "7.0.0", (*_TORCH, *_CANN)),
    Set(FITTING["torch-2.5.1"], "8.1.RC1", (*_TORCH, *_CANN)),
    Set(FITTING["torch-2.9.0"], "8.5.0", (*_TORCH, *_CANN, "setuptools")),
    Set(FITTING["vllm-ascend-0.15.0rc1"], "8.5.0", (*_TORCH, *_CANN, "vllm-ascend")),
    Set(FITTING["torch-2.12.0"], "9.1.0", (*_TORCH, *_CANN)),
    Set(FITTING["torch-2.9.0.post2"], "9.0.0", (*_TORCH, *_CANN)),
    Set(FITTING["mindspore-2.7.1"], "8.3.RC1", (*_MINDSPORE, *_CANN)),
    Set(FITTING["mindspore-2.8.0"], "8.5.0", (*_MINDSPORE, *_CANN)),
    Set(FITTING["mindspore-2.10.0"], "9.1.0", (*_MINDSPORE, *_CANN)),
    Set(FITTING["paddle-3.2.0"], "", ("paddle-cpu", "numpy-version")),
    Set(FITTING["numpy-2"], "", ("conflicting-packages",)),
    Set(FITTING["triton-ascend-last"]),
]


def _ill(codes: str, name: str, python: str, *requirements: Union[str, Foreign], **more: object) -> Set:
    """The codes, each with the first letter of its severity: E torch-npu.torch-mismatch."""
    words = codes.split()
    severities = {"E": "error", "W": "warning"}
    cann = str(more.pop("cann", ""))
    told = {code: severities[letter] for letter, code in zip(words[::2], words[1::2])}
    return Set(_environment(f"ill-{name}", python, *requirements, **more), cann, codes=told)


def _beside(codes: str, name: str, cann: str) -> Set:
    """A fitting environment beside a CANN that it does not fit."""
    ill = _ill(codes, name, "3.11")
    return Set(FITTING[name], cann, codes=ill.codes)


_MINE = ("mindspore==2.8.0", *MINDSPORE_NEEDS, "protobuf==4.25.3", "psutil==6.0.0")

ILL = [
    _ill("E torch-npu.torch-mismatch", "other-torch", "3.11", "torch-npu==2.9.0", "torch==2.8.0", NUMPY_1),
    _ill("E torch-npu.torch-missing", "no-torch", "3.11", "torch-npu==2.9.0", NUMPY_1),
    _beside("W torch-npu.cann-not-listed", "torch-2.5.1", "8.5.0"),
    _ill("E torch-family.mismatch", "other-vision", "3.11", "torch==2.9.0", "torchvision==0.23.0", NUMPY_1),
    _ill("E torch-family.mismatch", "other-audio", "3.11", "torch==2.9.0", "torchaudio==2.8.0", NUMPY_1),
    _ill("E torch-family.torch-missing", "vision-alone", "3.11", "torchvision==0.24.0", NUMPY_1),
    _ill(
        "W torch-family.triton-mixed", "triton-last", "3.11", "triton-ascend==3.2.0", then=("triton==3.2.0",),
    ),
    _ill(
        "W torch-family.triton-mixed", "newer-triton-last", "3.11", "torch==2.9.0", NUMPY_1,
        "triton-ascend==3.2.0", then=("triton==3.5.0",),
    ),
    _ill("E scipy-version.missing", "no-scipy", "3.11", *_MINE, NUMPY_1),
    _ill(
        "E scipy-version.slow-initialisation E conflicting-packages.other-python", "slow-scipy", "3.9",
        "mindspore-ascend==1.10.0", NUMPY_1, Foreign("scipy==1.4.1", python="3.8"),
    ),
    _ill("W numpy-version.unsuitable", "numpy-2-mindspore", "3.11", *_MINE, "numpy==2.3.5", "scipy==1.17.1"),
    _ill("E scipy-version.unsuitable", "scipy-1.18", "3.12", *_MINE, NUMPY_1, "scipy==1.18.1"),
    _ill("E numpy-version.missing", "no-numpy", "3.11", *_MINE, "scipy==1.17.1"),
    _ill(
        "W numpy-version.unsuitable", "numpy-2-vllm-ascend", "3.11", "vllm-ascend==0.15.0rc1", "vllm==0.15.0",
        *VLLM_NEEDS,
        "numpy==2.3.5",
    ),
    _beside("E mindspore-cann.not-accepted", "mindspore-2.8.0", "8.1.RC1"),
    _ill(
        "E vllm-ascend.vllm-mismatch", "other-vllm", "3.11", "vllm-ascend==0.15.0rc1", "vllm==0.14.1",
        *VLLM_NEEDS,
        NUMPY_1,
    ),
    _ill(
        "E vllm-ascend.vllm-missing", "no-vllm", "3.11", "vllm-ascend==0.15.0rc1",
        *VLLM_NEEDS,
        NUMPY_1,
    ),
    _ill(
        "E vllm-ascend.unmet-requirement", "vllm-ascend-on-2.8", "3.11", "vllm-ascend==0.15.0rc1",
        "vllm==0.15.0", "torch==2.8.0", "torch-npu==2.8.0", "torchvision==0.23.0", "torchaudio==2.8.0",
        "triton-ascend==3.2.0", NUMPY_1,
    ),
    _ill(
        "W conflicting-packages.two-flavours", "gpu-and-ascend", "3.9", "mindspore-gpu==1.10.0", NUMPY_1,
        "scipy==1.13.1", then=("mindspore-ascend==1.10.0",),
    ),
    _ill(
        "W conflicting-packages.two-flavours", "two-paddles", "3.11", "paddlepaddle==2.6.2", NUMPY_1,
        then=("paddlepaddle-gpu==2.6.2",),
    ),
    # Its tag is none-any: any pip takes it, where there is no wheel for x86-64.
    _ill(
        "E conflicting-packages.other-machine", "mindspore-aarch64", "3.11",
        Foreign("mindspore==2.8.0", "aarch64"), *MINDSPORE_NEEDS, NUMPY_1, "scipy==1.17.1",
    ),
    _ill("E conflicting-packages.other-machine", "numpy-aarch64", "3.11", Foreign(NUMPY_1, "aarch64")),
    _ill(
        "E conflicting-packages.other-machine", "torch-aarch64", "3.11", Foreign("torch==2.9.0", "aarch64"),
        Foreign("torch-npu==2.9.0", "aarch64"), NUMPY_1,
    ),
    _ill("E conflicting-packages.other-python", "numpy-3.12", "3.11", Foreign("numpy==2.1.3", python="3.12")),
    _ill(
        "W conflicting-packages.mixed-copy", "mixed-numpy", "3.11", "numpy==2.1.3", Foreign("numpy==1.26.4"),
    ),
    _ill(
        "W setuptools.pkg-resources-gone", "tensorboard", "3.12", "torch==2.9.0", NUMPY_1,
        "tensorboard==2.20.0", "setuptools==84.2.1",
    ),
    _ill("W setuptools.pkg-resources-gone", "old-torch", "3.11", "torch==2.1.0", NUMPY_1),
]  # fmt: skip
