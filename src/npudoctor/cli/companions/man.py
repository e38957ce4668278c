"""Makes the manual pages: one for npudoctor and one per command, in the current language."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import __version__
from npudoctor.cli.arguments.examples import examples_of
from npudoctor.cli.companions.grammar import CommandSpec, all_commands
from npudoctor.core.messages import _


def manual_pages(root: CommandSpec) -> Iterator[tuple[str, str]]:
    """Yield the file name and content of each page."""
    for command in all_commands(root):
        yield f"{_page_name(command)}.1", "\n".join(_page_lines(command, root)) + "\n"


def _page_name(command: CommandSpec) -> str:
    return "-".join(("npudoctor", *command.words))


def _page_lines(command: CommandSpec, root: CommandSpec) -> Iterator[str]:
    # No date, so that the build is reproducible.
    yield f'.TH {_page_name(command).upper()} 1 "" "npudoctor {__version__}" "npudoctor"'
    yield from (".ad l", ".nh")  # no justification (Chinese has no blanks), no hyphenation (of option names)
    yield from _section(_("NAME"), f"{_page_name(command)} \\- {_escape_roff(command.help)}")
    name = f"\\fB{_escape_roff(' '.join(('npudoctor', *command.words)))}\\fR"
    words = "COMMAND [ARGS]..." if command.commands else command.argument.metavar if command.argument else ""
    synopsis = f"{name} [\\fI{_escape_roff(_('OPTIONS'))}\\fR] {_escape_roff(words)}".rstrip()
    yield from _section(_("SYNOPSIS"), synopsis)
    if command.commands:
        yield from _section(_("COMMANDS"))
        for subcommand in command.commands:
            yield from (
                ".TP",
                f"\\fB{_escape_roff(_page_name(subcommand))}\\fR(1)",
                _escape_roff(subcommand.help),
            )
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
    yield from _exit_status_section(command)
    examples = examples_of(command.words)
    if examples:
        yield from _section(_("EXAMPLES"))
    for line, text in examples:
        yield from (".TP", f"\\fB{_escape_roff(line)}\\fR", _escape_roff(text))
    related_commands = [
        other for other in all_commands(root) if other is not command and _is_related(other, command)
    ]
    yield from _section(
        _("SEE ALSO"),
        ", ".join(f"\\fB{_escape_roff(_page_name(other))}\\fR(1)" for other in related_commands),
    )


def _is_related(other: CommandSpec, command: CommandSpec) -> bool:
    """Whether a page refers to the other one: siblings, the parent and children of the command."""
    return (
        other.words[:-1] == command.words[:-1]
        or other.words == command.words[:-1]
        or other.words[:-1] == command.words
    )


def _section(title: str, *lines: str) -> Iterator[str]:
    yield f".SH {_escape_roff(title)}"
    yield from lines


def _exit_status_section(command: CommandSpec) -> Iterator[str]:
    """The section on exit codes."""
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
    """Escape a text for roff."""
    # groff prints a bare "-" as the hyphen U+2010, which cannot be pasted as an option.
    text = text.replace("\\", "\\e").replace("-", "\\-")
    # A dot or an apostrophe at the start of a line would be a roff request.
    return f"\\&{text}" if text.startswith((".", "'")) else text
