"""What a broken or working environment is, and what is imported of each base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .environment_bases import MINDSPORE, MINDSPORE_NEW, PADDLE, PADDLE_39, TENSORFLOW, TORCH, TRAINERS, Base
from .environment_steps import Step

FRAMEWORKS = {
    PADDLE_39: "paddle",
    PADDLE: "paddle",
    MINDSPORE: "mindspore",
    MINDSPORE_NEW: "mindspore",
    TENSORFLOW: "tensorflow",
    TORCH: "torch torchvision torchaudio",
    TRAINERS: "torch transformers accelerate peft trl datasets lightning pytorch_lightning"
    " sentence_transformers diffusers",
}


# Where the distribution has another name.
DISTRIBUTIONS = {"paddle": "paddlepaddle", "tensorflow": "tensorflow-cpu"}


@dataclass(frozen=True)
class Case:
    """One environment. `names`: what is broken, any of these words; none where it works.

    `warned`: the import itself works, so that a warning is enough. `quick`: one of the dozen in CI.
    `kind`: the class that its figures are counted in.
    """

    name: str
    base: Base
    steps: tuple[Step, ...]
    names: tuple[str, ...] = ()
    warned: bool = False
    quick: bool = False
    kind: str = "first"

    @property
    def frameworks(self) -> list[str]:
        """What is imported."""
        return FRAMEWORKS[self.base].split()

    @property
    def distributions(self) -> list[str]:
        """The first of them, as the head of a report names it."""
        return [DISTRIBUTIONS.get(self.frameworks[0], self.frameworks[0])]


@dataclass(frozen=True)
class Group:
    """Cases of one kind, told by rows: name, base, steps and the words of which one must be said."""

    kind: str

    def broken(
        self,
        name: str,
        base: Base,
        steps: Sequence[Step],
        names: str,
        quick: bool = False,
        warned: bool = False,
    ) -> Case:
        """One that does not import. `warned`: a warning, and the verdict that nobody can tell, are enough."""
        return Case(name, base, tuple(steps), tuple(names.split()), warned, quick=quick, kind=self.kind)

    def works(self, name: str, base: Base, steps: Sequence[Step], quick: bool = False) -> Case:
        """One that looks odd and imports."""
        return Case(name, base, tuple(steps), quick=quick, kind=self.kind)
