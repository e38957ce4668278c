"""The command line as data: commands, options, and what each value may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _

_CHOICES = pattern(r"\[?([a-z0-9-]+(?:\|[a-z0-9-]+)+)(?:\[,\.\.\.\])?\]?")
_ERROR_CODE = pattern(r"[A-Z]{2}[A-Z0-9]*\d{3,}")  # EI0006; of mere numbers there are too many
# What a value is, by how the help calls it.
_KINDS = {
    "FILE": "file", "PATH": "file", "SCRIPT": "file", "OUT.tar.gz": "file", "FILES|-...": "file",
    "DIR": "folder", "USER": "user", "NAME": "user",
    "[ID|GROUP|TAG|CODE]...": "names", "ID|CODE[=REASON]": "codes", "[ID|CODE]...": "codes",
    "ID|CODE": "codes", "[LOG|DIR|-|CODE]...": "logs", "[--] COMMAND...": "command",
    "[-- OPTIONS OF CHECK]...": "check",
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """What may stand there: one of `choices`, or what `kind` says: file, folder, user, names, codes, logs,
    command, check (what that takes); "" for what nobody can guess."""

    metavar: str
    kind: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """An option under its names; a switch has no value."""

    names: tuple[str, ...]
    help: str
    value: Optional[Value] = None


@dataclass(frozen=True)
class Command:
    """A command by its words; one of many has `commands` and takes no arguments."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    argument: Optional[Value] = None
    argument_help: str = ""
    commands: tuple[Command, ...] = ()

    @property
    def name(self) -> str:
        """Its last word."""
        return self.words[-1] if self.words else "npudoctor"


@dataclass(frozen=True)
class Words:
    """What values may be: ids, groups and tags; codes of findings; codes of CANN that `explain` knows."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    codes: tuple[str, ...]
    errors: tuple[str, ...]

    def of(self, kind: str) -> tuple[str, ...]:
        """All that may stand where a value of this kind is wanted."""
        return {
            "names": (*self.ids, *self.groups, *self.codes),
            "codes": (*self.ids, *self.codes),
            "logs": (*self.errors, *self.codes),
        }.get(kind, ())


def command_tree() -> Command:
    """The whole command line, in the language spoken now."""
    from npudoctor.cli.app import build_command_line

    return _command(build_command_line(), ())


def all_commands(root: Command) -> Iterator[Command]:
    """It and all below it."""
    yield root
    for command in root.commands:
        yield from all_commands(command)


def _command(click: Any, words: tuple[str, ...]) -> Command:
    arguments = [parameter for parameter in click.params if parameter.param_type_name == "argument"]
    options = [
        Option(
            tuple(sorted(parameter.opts, key=len)),
            parameter.help or "",
            None if parameter.is_flag or parameter.count else _value(parameter.metavar),
        )
        for parameter in click.params
        if parameter.param_type_name == "option"
    ]
    options.append(Option(("-h", "--help"), _("Show this message and exit.")))
    commands = getattr(click, "commands", {})
    return Command(
        words,
        click.help or "",
        tuple(options),
        _value(arguments[0].metavar) if arguments else None,
        (getattr(arguments[0], "help", "") or "") if arguments else "",
        tuple(_command(below, (*words, name)) for name, below in commands.items()),
    )


def _value(metavar: str) -> Value:
    choices = _CHOICES.fullmatch(metavar)
    if choices:
        return Value(metavar, "", tuple(choices[1].split("|")))
    return Value(metavar, _KINDS.get(metavar, ""))


def known_words() -> Words:
    """The built-in ones: drop-ins are another machine's matter."""
    from npudoctor.checking.index import load_index
    from npudoctor.explain.signatures.codes import codes_of
    from npudoctor.explain.signatures.prepared import prepare_table
    from npudoctor.knowledge.site import Knowledge

    checks = list(load_index().values())
    return Words(
        ids=_sort_names(check.id for check in checks),
        groups=_sort_names({name for check in checks for name in (check.group, *check.tags)}),
        codes=_sort_names(code for check in checks for code in check.codes),
        errors=_sort_names(
            filter(_ERROR_CODE.fullmatch, codes_of(prepare_table(Knowledge()).table.signatures))
        ),
    )


def _sort_names(names: Any) -> tuple[str, ...]:
    return tuple(sorted(names))


def names_of(options: Sequence[Option]) -> list[str]:
    """All names under which the options stand."""
    return [name for option in options for name in option.names]
