"""Cases of the trainers' stack: what one of ten packages needs of seventy others."""

from __future__ import annotations

from collections.abc import Iterator

from .environment_bases import TRAINERS
from .environment_case import Case, Group
from .environment_steps import Install, Uninstall

MISSING = (
    "accelerate huggingface-hub tokenizers regex pyyaml safetensors dill xxhash pyarrow torchmetrics"
    " lightning-utilities scikit-learn filelock"
)
SPARE = "shellingham hf-xet importlib-metadata"

_REQUIREMENTS = Group("required")
_VERSIONS = Group("versions")


def _without() -> Iterator[Case]:
    for name in MISSING.split():
        words = f"{name} {name.replace('-', '_')}"
        yield _REQUIREMENTS.broken(f"trainers-without-{name}", TRAINERS, (Uninstall(name),), words)
    for name in SPARE.split():
        yield _REQUIREMENTS.works(f"trainers-without-{name}", TRAINERS, (Uninstall(name),))


# Of what each needs: those that it does not start with, and those that it does against its own metadata.
WRONG = (
    "tokenizers==0.19.1 huggingface-hub==0.20.3 numpy==1.26.4 pyarrow==14.0.2 transformers==4.46.3"
    " packaging==20.0 typing_extensions==4.5.0 torchmetrics==0.7.3 peft==0.5.0 accelerate==0.20.3"
)
HARMLESS = "fsspec==2023.1.0 fsspec==2026.1.0 filelock==3.0.12 dill==0.3.4 urllib3==1.26.20"


def _versions() -> Iterator[Case]:
    for requirement in WRONG.split():
        name, _equals, version = requirement.partition("==")
        words = f"{name} {name.replace('-', '_')}"
        yield _VERSIONS.broken(f"trainers-{name}-{version}", TRAINERS, (Install(requirement),), words)
    for requirement in HARMLESS.split():
        yield _VERSIONS.works(f"trainers-{requirement.replace('==', '-')}", TRAINERS, (Install(requirement),))


CASES = (*_without(), *_versions())
