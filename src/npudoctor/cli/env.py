"""`npudoctor env`: print the export lines for eval "$(npudoctor env)"; on failure, a line that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller
    from npudoctor.environment import EnvironmentChanges


def env(
    caller: Caller,
    shell: Annotated[
        o.Text,
        o.value("--shell", "bash|zsh|fish|csh", _("Shell syntax to write; default: the calling shell's.")),
    ] = None,
    write: Annotated[
        o.Text,
        o.value("--write", "FILE", _("Write the lines to this file instead, completely or not at all.")),
    ] = None,
    format: Annotated[
        o.Text,
        o.value("--format", "slurm|docker", _("Format for Slurm's TaskProlog or for docker's --env-file.")),
    ] = None,
    python: o.Python = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Print the export lines with which the environment checks pass."""
    from npudoctor.cli.arguments.shells import choose_form

    form = choose_form(shell, format, caller.variables)
    return _print_changes(caller, form, {"python": python, "lang": lang, "config": config}, write)


def _print_changes(caller: Caller, form: str, flags: dict[str, Optional[str]], write: Optional[str]) -> int:
    """Print or write the lines; returns the exit code. On failure, cli/main.py makes an `eval` fail."""
    from npudoctor.cli.arguments.paths import resolve_own_file
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal import output
    from npudoctor.cli.terminal.progress import show_waiting_programs
    from npudoctor.environment import required_changes
    from npudoctor.host import CannotTell
    from npudoctor.host.fs.files import Files
    from npudoctor.render.environment import InexpressibleValue, render_changes

    with open_session(flags, caller) as session:
        target = resolve_own_file(write, Files(session.host.disk), "--write")
        try:
            with show_waiting_programs(session.host, _("interrupted: nothing was set")):
                required = required_changes(session.host)
            # A file and a container are used with other variables than this shell's: they get all lines.
            changes = required.changes if target is None and form != "docker" else required.whole
            text = render_changes(changes, form)
        except (CannotTell, InexpressibleValue) as error:
            reason = error.reason if isinstance(error, CannotTell) else str(error)
            output.complain(_("the environment cannot be set: {why}", why=reason))
            return 1
        _print_notes(required, form, target)
        if target is None:
            output.emit(text, errors="surrogateescape")
        else:
            output.save(target, text, errors="surrogateescape")
    return 0


def _print_notes(required: EnvironmentChanges, form: str, target: Optional[str]) -> None:
    """Print the notes for people on standard error."""
    from npudoctor.cli.terminal import output
    from npudoctor.render.environment import SHELLS, eval_line, find_cut_by_old_slurm, find_not_unsettable

    for note in required.notes:
        output.complain(note)
    for name in find_cut_by_old_slurm(required.changes, form):
        text = _("{name} is too long for Slurm before 22.05, which would truncate it")
        output.complain(text.format(name=name))
    for name in find_not_unsettable(required.changes, form):
        output.complain(_("{name} should be unset, which docker's --env-file cannot express", name=name))
    if target is None and output.is_terminal() and form in SHELLS:
        text = _("nothing is set yet; run: {line}") if required.changes else _("nothing needs to be set")
        output.complain(text.format(line=eval_line(form)))
