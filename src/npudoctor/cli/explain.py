"""`npudoctor explain`: explain a failing log or a code, and what to do."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from npudoctor.core.frozen import replace
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller
    from npudoctor.explain.answer import Explanation


def explain(
    caller: Caller,
    logs: Annotated[
        o.Texts,
        o.argument(
            "[LOG|DIR|-|CODE]...",
            _("Log, folder or code to explain; default: the newest run's logs in this directory."),
        ),
    ] = None,
    verify: Annotated[
        bool, o.switch("--verify", help=_("Run the checks that confirm the cause on this machine."))
    ] = False,
    collect: Annotated[
        o.Text,
        o.value(
            "--collect",
            "OUT.tar.gz",
            _("Also write a support bundle: report, relevant log lines, versions."),
        ),
    ] = None,
    deadline: Annotated[
        o.Text,
        o.value(
            "--deadline",
            "SECONDS",
            _("Seconds that reading may take; default 60 for a folder, 600 for files."),
        ),
    ] = None,
    format: o.Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Explain logs or codes; returns the exit code."""
    from npudoctor.cli.arguments.paths import infer_format, resolve_output
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.diagnosis import explain_words, find_installed, verify_diagnosis
    from npudoctor.cli.request import ExplainRequest
    from npudoctor.cli.terminal.output import complain
    from npudoctor.cli.terminal.reports import deliver, style_for
    from npudoctor.explain.answer import add_remedies
    from npudoctor.host.fs.files import Files, LocalDisk
    from npudoctor.render.explain_json import explain_object
    from npudoctor.render.explain_text import explain_text

    started = time.monotonic()
    flags = {"format": infer_format(format, output), "lang": lang, "config": config}
    settings = load_settings({**flags, "deadline": deadline}, caller)
    seconds = None if deadline is None else settings["deadline"]
    packed = None
    with closing(LocalDisk()) as disk:
        target = resolve_output(output, Files(disk))
        if collect is not None:  # imported only when it is needed: it costs start-up time
            from npudoctor.cli import bundle

            packed = bundle.validate_bundle_path(collect, Files(disk))
    if verify or packed is not None:  # likewise: loads the registry and the checks
        from npudoctor.cli.session import open_session
    explanation = explain_words(ExplainRequest(tuple(logs or ()), caller.variables, started, seconds))
    if verify:
        with open_session(flags, caller) as session:
            explanation = add_remedies(verify_diagnosis(explanation, session), find_installed(session.host))
    else:
        explanation = add_remedies(explanation, None)
    if packed is not None:
        with open_session(flags, caller) as session:
            bundle.collect_bundle(packed, explanation, session)
        complain(_("saved the bundle to {path}", path=packed))
    deliver(
        settings["format"],
        lambda: explain_object(explanation),
        lambda: explain_text(add_context(explanation), style_for(target)),
        target,
    )
    return explanation.exit_code


def add_context(explanation: Explanation) -> Explanation:
    """The explanation with the lines around the first place of its best diagnosis, for who is shown them."""
    spot = explanation.diagnoses[0].first if explanation.diagnoses else None
    log = explanation.logs.get(spot.path) if spot is not None else None
    if spot is None or log is None or explanation.late is not None:
        return explanation
    from npudoctor.explain.context import read_context  # which loads what reads logs: a code needs none

    return replace(explanation, context=read_context(log, spot))
