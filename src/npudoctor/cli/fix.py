"""`npudoctor fix`: show the plan, ask, apply the fixes that are proven safe, and report what remains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller
    from npudoctor.cli.session import Session
    from npudoctor.fixing.engine import FixReport
    from npudoctor.fixing.plan import FixRequest


_OWN_PARAMETERS = ("names", "cache_server", "everything", "dry_run", "yes", "risk", "owner")


def fix(
    caller: Caller,
    names: Annotated[
        o.Texts, o.argument("[ID|CODE]...", _("What to fix; without a selection only the plan is shown."))
    ] = None,
    cache_server: o.CacheServer = False,
    everything: Annotated[bool, o.switch("--all", help=_("Everything that can be fixed."))] = False,
    dry_run: o.DryRun = False,
    yes: Annotated[bool, o.switch("--yes", "-y", help=_("Do not ask; apply the safe fixes."))] = False,
    risk: o.Risk = None,
    owner: o.Owner = None,
    expect: o.Expect = None,
    python: o.Python = None,
    env_of: o.EnvOf = None,
    peers: o.Peers = None,
    user: o.User = None,
    job: o.Job = None,
    deadline: o.Deadline = None,
    timeout: o.Timeout = None,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Fix what is safe to fix."""
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal.answers import deliver_fix

    selection = [*(names or ()), *(["cache-server"] if cache_server else ())]
    # The other flags have the same meaning as with `check`.
    flags = {name: value for name, value in caller.parameters.items() if name not in _OWN_PARAMETERS}
    with open_session(flags, caller, _owner_uids(owner or ())) as session:
        request = _build_request(
            session, selection, everything, dry_run=dry_run, yes=yes, risk=risk or "safe"
        )
        report = _run_fix(session, request)
        deliver_fix(report, session.config["format"])
    return report.exit_code


def _owner_uids(names: Sequence[str]) -> frozenset[int]:
    """The uids of the users named by --owner; UsageError for an unknown user, or without root."""
    import os

    from npudoctor.cli.config import UsageError
    from npudoctor.host.users.identity import user_id

    if names and os.geteuid() != 0:
        raise UsageError(_("--owner is for root only: other users can remove only what belongs to them"))
    uids = {name: user_id(name) for name in names}
    for name, uid in uids.items():
        if uid is None:
            raise UsageError(_("--owner: user {name} does not exist", name=name))
    return frozenset(uid for uid in uids.values() if uid is not None)


def _build_request(
    session: Session, names: Sequence[str], everything: bool, *, dry_run: bool, yes: bool, risk: str
) -> FixRequest:
    from npudoctor.cli.config import UsageError, not_one_of
    from npudoctor.core.model import Risk
    from npudoctor.fixing.plan import FixRequest

    if risk not in ("safe", "caution"):
        raise UsageError("--risk: " + not_one_of(risk, ("safe", "caution")))
    checks = session.loaded.checks
    selectable = {name for check in checks for name in (check.id, *check.codes)}
    selectable |= {row.check for row in session.loaded.broken}
    selected = set(session.resolve(names, selectable))
    codes = {code for check in checks for code in check.codes if {check.id, code} & selected}
    select = {check.id for check in checks if set(check.codes) & codes} | (selected - codes)
    if everything:
        select, codes = {check.id for check in checks} | {row.check for row in session.loaded.broken}, set()
    return FixRequest(tuple(sorted(select)), frozenset(codes), dry_run, yes, Risk[risk.upper()], everything)


def _run_fix(session: Session, request: FixRequest) -> FixReport:
    import os
    import time

    from npudoctor.cli.terminal.answers import confirm, show_plan
    from npudoctor.cli.terminal.output import complain
    from npudoctor.cli.terminal.signals import StoppedBySignal
    from npudoctor.core.frozen import replace
    from npudoctor.core.model import Report
    from npudoctor.fixing.engine import FixContext, fix
    from npudoctor.runner import runner

    settings = replace(session.settings(), select=request.select, scope="all", profile="full")

    def run_checks() -> Report:
        return runner.run(
            # A fresh host each time: what was read before a fix must not be used after it.
            session.loaded,
            session.host.fresh_copy(),
            settings,
            time.monotonic() + settings.deadline,
        )

    begun_steps: list[str] = []
    context = FixContext(run_checks, session.host.fresh_copy, confirm, begun_steps.append)
    try:
        # A dry run prints the plan as its result, and not twice.
        return fix(request, context, lambda items: None if request.only_shows else show_plan(items))
    except StoppedBySignal:
        if os.isatty(2):
            nothing = _("interrupted: nothing was changed")
            more = _(
                "interrupted: `npudoctor history` shows what was done; run the same command again to finish"
            )
            complain(more if any(name.startswith("before ") for name in begun_steps) else nothing)
        raise
