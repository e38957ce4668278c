"""`npudoctor show`: print the manual of a check, by its id or a code; or the explanation of a log's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def show(
    caller: Caller,
    name: Annotated[o.Text, o.argument("ID|CODE", _("A check, or one of its codes."))] = None,
    lang: o.Lang = None,
) -> int:
    """Print the manual of a check."""
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.cli.terminal import output
    from npudoctor.registry import registry
    from npudoctor.render.listing import manual_text

    load_settings({"lang": lang}, caller)
    if name is None:
        raise UsageError(_("specify a check or a code: npudoctor show ID|CODE"))
    loaded = registry.load_all(caller.variables)
    for check in loaded.checks:
        if name == check.id or name in check.codes:
            output.emit(manual_text(check), output.terminal_encoding())
            return 0
    row = loaded.find_broken(name)
    if row is not None:
        raise UsageError(f"{row.check}: {row.title}: {row.reason}")
    reason = loaded.explain_group_or_tag(name)
    if reason:
        raise UsageError(reason)
    # Imported only now: the table of log codes takes as long to load as everything else.
    from npudoctor.cli.codes import explain_code
    from npudoctor.cli.terminal.reports import style_for
    from npudoctor.explain.answer import add_remedies
    from npudoctor.render.explain_text import explain_text

    explanation = explain_code(name, caller.variables)
    if explanation is not None:
        output.emit(
            explain_text(add_remedies(explanation, None), style_for(None)), output.terminal_encoding()
        )
        return explanation.exit_code
    names = {names for check in loaded.checks for names in (check.id, *check.codes)}
    raise UsageError(
        _(
            "no such check or code: {name}{suggestion}",
            name=name,
            suggestion=loaded.not_loaded_hint() + suggestion(name, names),
        )
    )
