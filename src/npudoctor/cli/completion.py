"""`npudoctor completion`: print the script for Tab completion; the package installs the same scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def completion(
    caller: Caller,
    shell: Annotated[
        o.Text, o.argument("[bash|zsh|fish]", _("The shell; default: the one in SHELL."))
    ] = None,
    lang: o.Lang = None,
) -> int:
    """Print the completion script of a shell."""
    import os

    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.companions import share
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.cli.terminal import output

    load_settings({"lang": lang}, caller)
    chosen = shell or os.path.basename(caller.variables.get("SHELL", ""))
    if chosen not in share.PLACES:
        hint = suggestion(chosen, share.PLACES)
        raise UsageError(
            _(
                "no completion for this shell: {name}; supported: {shells}{suggestion}",
                name=chosen,
                shells=", ".join(share.PLACES),
                suggestion=hint,
            )
        )
    output.emit(share.completion_for(chosen))
    return 0
