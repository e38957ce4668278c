"""`npudoctor snapshot`: the facts of this node, to be kept, compared, or pasted into an issue."""

from __future__ import annotations

from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.core.messages import _

MODE = 0o600  # as a bundle of explain --collect: it tells much about the node
File = Annotated[o.Text, o.argument("[FILE]", _("Write it to this file; default: standard output."))]
Paste = Annotated[
    bool,
    o.switch("--paste", help=_("Print a short Markdown block for an issue, without names and addresses.")),
]


def snapshot(
    ctx: typer.Context,
    file: File = None,
    paste: Paste = False,
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
    """Take a snapshot of this node; 0 once it is written, whatever it says."""
    from npudoctor.cli.arguments.paths import writable
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal import output
    from npudoctor.core.redact.bundle import BundleRedactor
    from npudoctor.host.fs.files import Files
    from npudoctor.render.snapshot_json import snapshot_text
    from npudoctor.render.snapshot_paste import paste_text
    from npudoctor.runner.snapshot import take

    # It is read by others, and by programs: English as all JSON, unless a language is asked for.
    with open_session({**ctx.params, "format": "json"}, ctx.obj) as session:
        target = writable(file, Files(session.host.disk), "FILE")
        taken = take(session.loaded, session.host, session.settings(), session.until)
        redactor = BundleRedactor(session.host.variables if root is None else ctx.obj.variables)
        text = paste_text(taken, redactor) if paste else snapshot_text(taken, redactor)
        if target is None:
            output.emit(text)
        else:
            output.save(target, text, mode=MODE)
    return 0
