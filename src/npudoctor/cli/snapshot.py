"""`npudoctor snapshot`: record the facts of this node, to keep, compare, or paste into an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller

MODE = 0o600  # private, like a bundle of explain --collect: it tells much about the node


def snapshot(
    caller: Caller,
    file: Annotated[
        o.Text, o.argument("[FILE]", _("Write it to this file; default: standard output."))
    ] = None,
    paste: Annotated[
        bool,
        o.switch(
            "--paste", help=_("Print a short Markdown block for an issue, without names and addresses.")
        ),
    ] = False,
    expect: o.Expect = None,
    python: o.Python = None,
    root: o.Root = None,
    env_of: o.EnvOf = None,
    source: o.Source = None,
    deadline: o.Deadline = None,
    timeout: o.Timeout = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Take a snapshot of this node; returns 0 once it is written, whatever was found."""
    from npudoctor.cli.arguments.paths import resolve_output
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal import output
    from npudoctor.core.redact.bundle import BundleRedactor
    from npudoctor.host.fs.files import Files
    from npudoctor.render.snapshot_json import snapshot_text
    from npudoctor.render.snapshot_paste import paste_text
    from npudoctor.runner.snapshot import take_snapshot

    # For other people and programs: English like all JSON, unless --lang is given.
    with open_session({**caller.parameters, "format": "json"}, caller) as session:
        target = resolve_output(file, Files(session.host.disk), "FILE")
        node_snapshot = take_snapshot(session.loaded, session.host, session.settings(), session.until)
        redactor = BundleRedactor(session.host.variables if root is None else caller.variables)
        text = paste_text(node_snapshot, redactor) if paste else snapshot_text(node_snapshot, redactor)
        if target is None:
            output.emit(text)
        else:
            output.save(target, text, mode=MODE)
    return 0
