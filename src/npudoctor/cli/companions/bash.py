"""Completion for bash: one function, needing nothing else, so that it works without bash-completion too."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.cli.companions.grammar import Command, Value, Words, all_commands, names_of

_HEAD = """\
# bash completion for npudoctor: generated from its command line, do not edit.

{words}
_npudoctor() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at='' word i skip=0 values=''
    # bash splits --option=value at the sign.
    if [[ $current == '=' ]]; then
        current=''
    elif [[ $before == '=' ]] && ((COMP_CWORD > 1)); then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((skip)); then
            skip=0
            continue
        fi
        case "$at $word" in
"""
_MIDDLE = """\
        esac
    done
    COMPREPLY=()
    case "$at $before" in
"""
_TAIL = """\
    esac
    if [[ $current == -* ]]; then
        case "$at" in
{options}
        esac
    else
        case "$at" in
{arguments}
        esac
    fi
    COMPREPLY=($(compgen -W "$values" -- "$current"))
}}

_npudoctor_files() {{
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$current"))
}}

# The rest of the line is another command's.
_npudoctor_command() {{
    local first=$1
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$first"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$first"
    elif ((COMP_CWORD == first)); then
        COMPREPLY=($(compgen -c -- "$current"))
    else
        _npudoctor_files -f
    fi
}}

complete -F _npudoctor npudoctor
"""


def bash_completion(root: Command, words: Words) -> str:
    """The whole file."""
    commands = list(all_commands(root))
    lists = "".join(  # the long ones, each once
        f"_npudoctor_{kind}='{' '.join(words.of(kind))}'\n" for kind in ("names", "codes", "logs")
    )
    options = "\n".join(
        f"            '{_at(command)}') values='{' '.join(names_of(command.options))}' ;;"
        for command in commands
    )
    return "".join(
        (
            _HEAD.replace("{words}", lists),
            *_walk(commands),
            _MIDDLE,
            *(
                f"        {_either(command, list(option.names))}) {_reply(option.value, words)}; return ;;\n"
                for command in commands
                for option in command.options
                if option.value is not None
            ),
            _TAIL.format(options=options, arguments="\n".join(_arguments(commands, words))),
        )
    )


def _at(command: Command) -> str:
    return "".join(f" {word}" for word in command.words)


def _walk(commands: list[Command]) -> Iterator[str]:
    """Which command the words so far name: the values of options are passed over."""
    for command in commands:
        taking = [name for option in command.options if option.value for name in option.names]
        if taking and command.commands:
            yield f"            {_either(command, taking)}) skip=1 ;;\n"
        for below in command.commands:
            yield f"            '{_at(command)} {below.name}') at+=' {below.name}' ;;\n"
        if command.argument and command.argument.kind == "command":
            yield f"            {_either(command, taking)}) skip=1 ;;\n"
            yield f"            '{_at(command)} --') _npudoctor_command $((i + 1)); return ;;\n"
            yield f"            '{_at(command)} '-*) ;;\n"
            yield f"            '{_at(command)} '*) _npudoctor_command $i; return ;;\n"


def _either(command: Command, names: list[str]) -> str:
    return " | ".join(f"'{_at(command)} {name}'" for name in names)


def _reply(value: Value, words: Words) -> str:
    """The command that sets COMPREPLY."""
    if value.kind == "file":
        return "_npudoctor_files -f"
    if value.kind == "folder":
        return "_npudoctor_files -d"
    if value.kind == "user":
        return 'COMPREPLY=($(compgen -u -- "$current"))'
    values = _values(value, words)
    return f'COMPREPLY=($(compgen -W "{values}" -- "$current"))' if values else ":"


def _values(value: Value, words: Words) -> str:
    """What may stand there, as the inside of a string in double quotes."""
    return (
        " ".join(value.choices)
        if value.choices
        else f"$_npudoctor_{value.kind}"
        if words.of(value.kind)
        else ""
    )


def _arguments(commands: list[Command], words: Words) -> Iterator[str]:
    """What stands without an option before it."""
    for command in commands:
        at, value = f"            '{_at(command)}')", command.argument
        if command.commands:
            yield f"{at} values='{' '.join(below.name for below in command.commands)}' ;;"
        elif value is None:
            yield f"{at} ;;"
        elif value.kind in ("file", "logs"):
            codes = _values(value, words)
            extra = f'; COMPREPLY+=($(compgen -W "{codes}" -- "$current"))' if codes else ""
            yield f"{at} _npudoctor_files -f{extra}; return ;;"
        elif value.kind == "command":
            yield f"{at} _npudoctor_command $COMP_CWORD; return ;;"
        else:
            yield f'{at} values="{_values(value, words)}" ;;'
