"""Makes the completion script for zsh by _arguments, with the help of each option."""

from __future__ import annotations

from npudoctor.cli.companions.grammar import CommandSpec, CompletionWords, ValueSpec, all_commands

_HEAD = """\
#compdef npudoctor
# zsh completion for npudoctor: generated from its command line, do not edit.

"""
_WORDS = """\
_npudoctor_{kind}() {{
  local -a words=({words})
  compadd -a words
}}

"""
_LOGS = """\
_npudoctor_logs() {
  _alternative 'files:log:_files' 'codes:code:_npudoctor_log_codes'
}

"""
# The local array is not called "commands", which is zsh's table of all programs.
_GROUP = """\
_npudoctor{at}() {{
  local context state line
  local -a below=(
{commands}
  )
  _arguments -C \\
{options}
    '1: :->command' \\
    '*:: :->rest'
  case $state in
    command) _describe command below ;;
    rest) (( $+functions[_npudoctor{at}_$line[1]] )) && _npudoctor{at}_$line[1] ;;
  esac
}}

"""
_COMMAND = """\
_npudoctor{at}() {{
  _arguments -s \\
{options}{argument}
}}

"""
_TAIL = """\
if [ "$funcstack[1]" = _npudoctor ]; then
  _npudoctor "$@"
else
  compdef _npudoctor npudoctor
fi
"""


def zsh_completion(root: CommandSpec, words: CompletionWords) -> str:
    """The completion script."""
    lists = {"names": words.of("names"), "codes": words.of("codes"), "log_codes": words.of("logs")}
    parts = [
        _HEAD,
        *(_WORDS.format(kind=kind, words=" ".join(values)) for kind, values in lists.items()),
        _LOGS,
    ]
    return "".join([*parts, *map(_command_function, all_commands(root)), _TAIL])


def _command_function(command: CommandSpec) -> str:
    at = "".join(f"_{word}" for word in command.words)
    specs = []
    for option in command.options:
        value = f":{_escape_spec(option.value.metavar)}:{_action(option.value)}" if option.value else ""
        for name in option.names:
            sign = "=" if option.value and name.startswith("--") else ""
            # The asterisk allows an option to be repeated.
            specs.append(f"    {_quote(f'*{name}{sign}[{_escape_spec(option.help)}]{value}')}")
    options = " \\\n".join(specs)
    if command.commands:
        below = "\n".join(
            f"    {_quote(f'{member.name}:{_escape_spec(member.help)}')}" for member in command.commands
        )
        return _GROUP.format(at=at, commands=below, options=options + " \\")
    words = command.argument is not None and _argument_spec(command.argument)
    argument = f" \\\n    {words}" if words else ""
    return _COMMAND.format(at=at, options=options, argument=argument)


def _action(value: ValueSpec) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    actions = {"file": "_files", "folder": "_files -/", "user": "_users", "check": "_npudoctor_check"}
    function = f"_npudoctor_{value.kind}" if value.kind in ("names", "codes", "logs") else " "
    return actions.get(value.kind, function)


def _argument_spec(value: ValueSpec) -> str:
    """The spec of the positional arguments; the words after `run` are completed as another command."""
    if value.kind == "command":
        return "'(-)*::command:_normal'"
    if not (value.choices or value.kind):
        return ""  # a spec with a message only would keep options from being completed
    return _quote(f"*:{_escape_spec(value.metavar)}:{_action(value)}")


def _escape_spec(text: str) -> str:
    """Escape a text for _arguments."""
    for special in "\\[]:":
        text = text.replace(special, f"\\{special}")
    return text


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
