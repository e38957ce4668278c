"""The command line as data for completion scripts and manual pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _

_CHOICES = pattern(r"\[?([a-z0-9-]+(?:\|[a-z0-9-]+)+)(?:\[,\.\.\.\])?\]?")
_ERROR_CODE = pattern(r"[A-Z]{2}[A-Z0-9]*\d{3,}")  # such as EI0006; plain numbers would be too many
# The kind of a value, by its metavar in the help.
_KINDS = {
    "FILE": "file", "PATH": "file", "SCRIPT": "file", "OUT.tar.gz": "file", "FILES|-...": "file",
    "DIR": "folder", "USER": "user", "NAME": "user",
    "[ID|GROUP|TAG|CODE]...": "names", "ID|CODE[=REASON]": "codes", "[ID|CODE]...": "codes",
    "ID|CODE": "codes", "[LOG|DIR|-|CODE]...": "logs", "[--] COMMAND...": "command",
    "[-- OPTIONS OF CHECK]...": "check",
}  # fmt: skip


@dataclass(frozen=True)
class ValueSpec:
    """The possible values of an option or argument: one of `choices`, or by `kind` file, folder, user, names,
    codes, logs, command, or check (the arguments of check); "" when they cannot be completed."""

    metavar: str
    kind: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionSpec:
    """An option with all its names; `value`: None for a switch."""

    names: tuple[str, ...]
    help: str
    value: Optional[ValueSpec] = None


@dataclass(frozen=True)
class CommandSpec:
    """A command by its words, () for npudoctor itself; a group has `commands` and no argument."""

    words: tuple[str, ...]
    help: str
    options: tuple[OptionSpec, ...]
    argument: Optional[ValueSpec] = None
    argument_help: str = ""
    commands: tuple[CommandSpec, ...] = ()

    @property
    def name(self) -> str:
        """Its last word, npudoctor for the root."""
        return self.words[-1] if self.words else "npudoctor"


@dataclass(frozen=True)
class CompletionWords:
    """Words to complete: `ids` of checks; `groups` and tags; `codes` of findings; `errors`: CANN's codes."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    codes: tuple[str, ...]
    errors: tuple[str, ...]

    def of(self, kind: str) -> tuple[str, ...]:
        """All words for a value of this kind."""
        return {
            "names": (*self.ids, *self.groups, *self.codes),
            "codes": (*self.ids, *self.codes),
            "logs": (*self.errors, *self.codes),
        }.get(kind, ())


def command_tree() -> CommandSpec:
    """The whole command line, with help in the current language."""
    from npudoctor.cli.app import build_command_line

    return _make_command(build_command_line(), ())


def all_commands(root: CommandSpec) -> Iterator[CommandSpec]:
    """Yield a command and all commands below it."""
    yield root
    for command in root.commands:
        yield from all_commands(command)


def _make_command(click: Any, words: tuple[str, ...]) -> CommandSpec:
    arguments = [parameter for parameter in click.params if parameter.param_type_name == "argument"]
    options = [
        OptionSpec(
            tuple(sorted(parameter.opts, key=len)),
            parameter.help or "",
            None if parameter.is_flag or parameter.count else _make_value(parameter.metavar),
        )
        for parameter in click.params
        if parameter.param_type_name == "option"
    ]
    options.append(OptionSpec(("-h", "--help"), _("Show this message and exit.")))
    commands = getattr(click, "commands", {})
    return CommandSpec(
        words,
        click.help or "",
        tuple(options),
        _make_value(arguments[0].metavar) if arguments else None,
        (getattr(arguments[0], "help", "") or "") if arguments else "",
        tuple(_make_command(below, (*words, name)) for name, below in commands.items()),
    )


def _make_value(metavar: str) -> ValueSpec:
    choices = _CHOICES.fullmatch(metavar)
    if choices:
        return ValueSpec(metavar, "", tuple(choices[1].split("|")))
    return ValueSpec(metavar, _KINDS.get(metavar, ""))


def list_known_words() -> CompletionWords:
    """The words of built-in checks: drop-ins of the machine that builds the scripts do not matter."""
    from npudoctor.checking.index import load_index
    from npudoctor.explain.signatures.codes import codes_of
    from npudoctor.explain.signatures.prepared import prepare_table
    from npudoctor.knowledge.site import Knowledge

    checks = list(load_index().values())
    return CompletionWords(
        ids=_sort_names(check.id for check in checks),
        groups=_sort_names({name for check in checks for name in (check.group, *check.tags)}),
        codes=_sort_names(code for check in checks for code in check.codes),
        errors=_sort_names(
            filter(_ERROR_CODE.fullmatch, codes_of(prepare_table(Knowledge()).table.signatures))
        ),
    )


def _sort_names(names: Any) -> tuple[str, ...]:
    return tuple(sorted(names))


def names_of(options: Sequence[OptionSpec]) -> list[str]:
    """All names of the options."""
    return [name for option in options for name in option.names]
