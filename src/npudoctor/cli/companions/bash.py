"""Makes the completion script for bash: one function that works without the package bash-completion, too."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.cli.companions.grammar import CommandSpec, CompletionWords, ValueSpec, all_commands, names_of

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


def bash_completion(root: CommandSpec, words: CompletionWords) -> str:
    """The completion script."""
    commands = list(all_commands(root))
    lists = "".join(  # the long lists are variables, so that each is in the script only once
        f"_npudoctor_{kind}='{' '.join(words.of(kind))}'\n" for kind in ("names", "codes", "logs")
    )
    options = "\n".join(
        f"            '{_path_of(command)}') values='{' '.join(names_of(command.options))}' ;;"
        for command in commands
    )
    return "".join(
        (
            _HEAD.replace("{words}", lists),
            *_walk_lines(commands),
            _MIDDLE,
            *(
                f"        {_cases(command, list(option.names))}) {_reply(option.value, words)}; return ;;\n"
                for command in commands
                for option in command.options
                if option.value is not None
            ),
            _TAIL.format(options=options, arguments="\n".join(_argument_lines(commands, words))),
        )
    )


def _path_of(command: CommandSpec) -> str:
    return "".join(f" {word}" for word in command.words)


def _walk_lines(commands: list[CommandSpec]) -> Iterator[str]:
    """Yield the case branches that find the command on the line, skipping the values of options."""
    for command in commands:
        valued_names = [name for option in command.options if option.value for name in option.names]
        if valued_names and command.commands:
            yield f"            {_cases(command, valued_names)}) skip=1 ;;\n"
        for subcommand in command.commands:
            yield f"            '{_path_of(command)} {subcommand.name}') at+=' {subcommand.name}' ;;\n"
        if command.argument and command.argument.kind == "command":
            yield f"            {_cases(command, valued_names)}) skip=1 ;;\n"
            yield f"            '{_path_of(command)} --') _npudoctor_command $((i + 1)); return ;;\n"
            yield f"            '{_path_of(command)} '-*) ;;\n"
            yield f"            '{_path_of(command)} '*) _npudoctor_command $i; return ;;\n"


def _cases(command: CommandSpec, names: list[str]) -> str:
    return " | ".join(f"'{_path_of(command)} {name}'" for name in names)


def _reply(value: ValueSpec, words: CompletionWords) -> str:
    """The shell command that sets COMPREPLY to the possible values."""
    if value.kind == "file":
        return "_npudoctor_files -f"
    if value.kind == "folder":
        return "_npudoctor_files -d"
    if value.kind == "user":
        return 'COMPREPLY=($(compgen -u -- "$current"))'
    values = _values(value, words)
    return f'COMPREPLY=($(compgen -W "{values}" -- "$current"))' if values else ":"


def _values(value: ValueSpec, words: CompletionWords) -> str:
    """The possible values, for the inside of a string in double quotes."""
    return (
        " ".join(value.choices)
        if value.choices
        else f"$_npudoctor_{value.kind}"
        if words.of(value.kind)
        else ""
    )


def _argument_lines(commands: list[CommandSpec], words: CompletionWords) -> Iterator[str]:
    """Yield the case branches for positional arguments."""
    for command in commands:
        at, value = f"            '{_path_of(command)}')", command.argument
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
