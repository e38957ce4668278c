"""Manual pages: one for npudoctor, one for each command, in the language spoken now."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import __version__
from npudoctor.cli.arguments.examples import examples_of
from npudoctor.cli.companions.grammar import Command, all_commands
from npudoctor.core.messages import _


def manual_pages(root: Command) -> Iterator[tuple[str, str]]:
    """The name of each file and what is in it."""
    for command in all_commands(root):
        yield f"{_page(command)}.1", "\n".join(_lines(command, root)) + "\n"


def _page(command: Command) -> str:
    return "-".join(("npudoctor", *command.words))


def _lines(command: Command, root: Command) -> Iterator[str]:
    # No date: the same sources make the same file.
    yield f'.TH {_page(command).upper()} 1 "" "npudoctor {__version__}" "npudoctor"'
    yield from (".ad l", ".nh")  # Chinese has no blanks to stretch, options no place to be broken
    yield from _section(_("NAME"), f"{_page(command)} \\- {_escape_roff(command.help)}")
    name = f"\\fB{_escape_roff(' '.join(('npudoctor', *command.words)))}\\fR"
    words = "COMMAND [ARGS]..." if command.commands else command.argument.metavar if command.argument else ""
    synopsis = f"{name} [\\fI{_escape_roff(_('OPTIONS'))}\\fR] {_escape_roff(words)}".rstrip()
    yield from _section(_("SYNOPSIS"), synopsis)
    if command.commands:
        yield from _section(_("COMMANDS"))
        for below in command.commands:
            yield from (".TP", f"\\fB{_escape_roff(_page(below))}\\fR(1)", _escape_roff(below.help))
    if command.argument is not None and command.argument_help:
        yield from _section(_("ARGUMENTS"))
        yield from (
            ".TP",
            f"\\fI{_escape_roff(command.argument.metavar)}\\fR",
            _escape_roff(command.argument_help),
        )
    yield from _section(_("OPTIONS"))
    for option in command.options:
        value = f" \\fI{_escape_roff(option.value.metavar)}\\fR" if option.value else ""
        names = ", ".join(f"\\fB{_escape_roff(name)}\\fR{value}" for name in option.names)
        yield from (".TP", names, _escape_roff(option.help))
    yield from _endings(command)
    examples = examples_of(command.words)
    if examples:
        yield from _section(_("EXAMPLES"))
    for line, text in examples:
        yield from (".TP", f"\\fB{_escape_roff(line)}\\fR", _escape_roff(text))
    others = [other for other in all_commands(root) if other is not command and _is_related(other, command)]
    yield from _section(
        _("SEE ALSO"), ", ".join(f"\\fB{_escape_roff(_page(other))}\\fR(1)" for other in others)
    )


def _is_related(other: Command, command: Command) -> bool:
    """Whether a page names the other: commands of the same group, and the one above."""
    return (
        other.words[:-1] == command.words[:-1]
        or other.words == command.words[:-1]
        or other.words[:-1] == command.words
    )


def _section(title: str, *lines: str) -> Iterator[str]:
    yield f".SH {_escape_roff(title)}"
    yield from lines


def _endings(command: Command) -> Iterator[str]:
    """Which exit status means what."""
    own: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {
        ("check",): (
            ("0", _("ready")),
            ("1", _("not ready: an error that is neither ignored nor caused by another error")),
            ("2", _("undetermined: a required check has no result")),
        ),
        ("fix",): (
            ("0", _("nothing is left to do")),
            ("1", _("something still needs a fix, or the plan was only shown")),
            ("2", _("something could not be proven or examined")),
        ),
        ("explain",): (
            ("0", _("explained, or the log contains no failure")),
            ("1", _("a failure that is not recognized")),
        ),
        ("run",): (
            ("125", _("not ready, or npudoctor itself failed: the job was not started")),
            (
                "126, 127",
                _("the command cannot be executed, or was not found; any other status is the job's"),
            ),
        ),
    }
    common = (
        ("64", _("wrong usage or configuration, explained in one line")),
        ("70", _("a bug in npudoctor")),
        ("74", _("the result could not be written")),
    )
    yield from _section(_("EXIT STATUS"))
    for status, text in (*own.get(command.words, ()), *common):
        yield from (".TP", f"\\fB{status}\\fR", _escape_roff(text))


def _escape_roff(text: str) -> str:
    """A text in which nothing is special to roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
