"""The two steps that most checks show: a program to run, a variable to set. Loads next to nothing."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.marks import FileMark
from npudoctor.core.model import Fix, Risk
from npudoctor.fixing.steps.shell import line_of, quote


@dataclass(frozen=True)
class Command:
    """Run a program: argv, no shell. Its guard is the program itself, and these fields.

    `undo` is the argv that takes it back; empty where nothing can. `unless`: where this succeeds, the change
    is there already and is not made: undoing it later would undo what somebody else had done.
    `skipped` is how the program begins each line where it says so itself. `inputs` are files (by path)
    that must still be the same, `undo_inputs` those of `undo`. `still`: where this says no (status 1), it is
    gone already, as after a reboot.
    """

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    skipped: str = ""
    inputs: tuple[FileMark, ...] = ()
    still: tuple[str, ...] = ()
    undo_inputs: tuple[FileMark, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> Optional[Command]:
        """The step that takes it back; None where nothing can."""
        # What told that the change is there tells for the undo that it still is.
        return Command(self.undo, still=self.unless, inputs=self.undo_inputs) if self.undo else None

    def undo_lines(self) -> tuple[str, ...]:
        return (line_of(self.undo),) if self.undo else ()


@dataclass(frozen=True)
class Export:
    """Set a variable in the caller's shell: shown, never applied, since no child can change its parent."""

    name: str
    value: str

    def lines(self) -> tuple[str, ...]:
        # zsh takes an unquoted =word for the path of a command.
        value = f"'{self.value}'" if quote(self.value).startswith("=") else quote(self.value)
        return (f"export {self.name}={value}",)


def change_variable(title: str, name: str, value: Optional[str], before: Optional[str]) -> Fix:
    """A fix that shows the `export` line, or `unset` where `value` is None: no program can change its parent.

    `before`: the value so far, for the line that takes it back; None where it was not set.
    """
    step = Command(("unset", name)) if value is None else Export(name, value)
    undo = (f"unset {name}",) if before is None else Export(name, before).lines()
    return Fix(title, (step,), undo, Risk.MANUAL, needs_root=False)
