"""Makes the completion script for fish: one line per option of each command."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.cli.companions.grammar import CommandSpec, CompletionWords, ValueSpec, all_commands

_HEAD = """\
# fish completion for npudoctor: generated from its command line, do not edit.

# The words of the command that stands on the line so far, without the values of options.
function __npudoctor_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l at
    set -l skip 0
    for word in $words
        if test $skip = 1
            set skip 0
            continue
        end
        switch "$at $word"
{walk}
        end
    end
    test "$at" = "$argv[1]"
end

# Behind `run` and its options stands another command, with its own completion.
function __npudoctor_command
    set -l rest
    set -l skip 1
    for word in (commandline -opc)[2..-1] (commandline -ct)
        if set -q rest[1]
            set -a rest $word
        else if test $skip = 1
            set skip 0
        else if contains -- $word {taking}
            set skip 1
        else if not string match -q -- '-*' $word
            set rest $word
        end
    end
    set -q rest[1]; and complete -C (string join ' ' -- $rest)
end

complete -c npudoctor -f
{words}
"""


def fish_completion(root: CommandSpec, words: CompletionWords) -> str:
    """The completion script."""
    commands = list(all_commands(root))
    walk = "\n".join(line for command in commands for line in _walk_lines(command))
    lists = "\n".join(
        f"set -g __npudoctor_{kind} {' '.join(words.of(kind))}" for kind in ("names", "codes", "logs")
    )
    lines = [line for command in commands for line in _complete_lines(command, words)]
    (run,) = (
        candidate for candidate in commands if candidate.argument and candidate.argument.kind == "command"
    )
    taking = " ".join(name for option in run.options if option.value for name in option.names)
    return _HEAD.format(walk=walk, words=lists, taking=taking) + "\n".join(lines) + "\n"


def _path_of(command: CommandSpec) -> str:
    return "".join(f" {word}" for word in command.words)


def _walk_lines(command: CommandSpec) -> Iterator[str]:
    valued_names = [name for option in command.options if option.value for name in option.names]
    if command.commands and valued_names:
        names = " ".join(f"'{_path_of(command)} {name}'" for name in valued_names)
        yield f"            case {names}\n                set skip 1"
    for subcommand in command.commands:
        yield f"            case '{_path_of(subcommand)}'\n                set at '{_path_of(subcommand)}'"


def _complete_lines(command: CommandSpec, words: CompletionWords) -> Iterator[str]:
    condition = f"""complete -c npudoctor -n "__npudoctor_at '{_path_of(command)}'\""""
    for subcommand in command.commands:
        yield f"{condition} -a {subcommand.name} -d {_quote(subcommand.help)}"
    for option in command.options:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        )
        if option.value is None:
            value = ""
        elif option.value.kind == "file":
            value = " -r -F"
        elif option.value.kind in ("folder", "user"):
            completes = "directories" if option.value.kind == "folder" else "users"
            value = f' -x -a "(__fish_complete_{completes})"'
        else:
            value = f" -x -a {_values(option.value, words)}"
        yield f"{condition} {names}{value} -d {_quote(option.help)}"
    argument = command.argument
    if argument is not None and argument.kind == "command":
        yield f"{condition} -x -a '(__npudoctor_command)'"
    elif argument is not None:
        files = "-F " if argument.kind in ("file", "logs") else ""
        yield f"{condition} {files}-a {_values(argument, words)}"


def _values(value: ValueSpec, words: CompletionWords) -> str:
    """The possible values as one quoted word; a variable in it is expanded when Tab is pressed."""
    if value.choices or not words.of(value.kind):
        return _quote(" ".join(value.choices))
    return f"'$__npudoctor_{value.kind}'"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
