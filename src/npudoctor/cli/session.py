"""The session of commands that run checks: reads settings, opens the machine, loads checks, resolves
names."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.cli.arguments.settings import knowledge_directory, set_language_and_warn
from npudoctor.cli.caller import Caller
from npudoctor.cli.config import Config, UsageError, load_config, suggestion
from npudoctor.cli.terminal import output, signals
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Result, Severity
from npudoctor.core.threads import GRACE
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.records import Records
from npudoctor.host.users.identity import current_identity
from npudoctor.registry import registry
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner.runner import DEEP, LIKE_SNAPSHOT, Settings

DEEP_SECONDS = 300.0  # the default deadline with deep checks, which import the frameworks
DEEP_NAMES = (DEEP, "framework-imports", "framework-selftest")
Flags = Mapping[str, object]  # the parameters of a command
LOADING = 0.4  # the part of the deadline for loading drop-ins and plug-ins


@dataclass(frozen=True)
class Session:
    """The settings, machine and checks of a run. `until`: its deadline on the monotonic clock; `deadline`: in
    seconds, without the time for the output."""

    config: Config
    host: Host
    loaded: LoadedChecks
    until: float
    deadline: float

    def settings(self, names: Sequence[str] = ()) -> Settings:
        """The settings for the runner; raises UsageError when a selected or ignored name is unknown."""
        config = self.config
        select = tuple(self.resolve(names, self.loaded.names()))
        # --expect and --like ask a question of their own, which must be answered besides the selection.
        if select and config.origin.get("expect") == "--expect" and config["expect"][:3] in ("npu", "gpu"):
            select += ("accelerator",)
        if select and self.host.options.like is not None:
            select += (LIKE_SNAPSHOT,)
        ignorable = {name for check in self.loaded.checks for name in (check.id, *check.codes)}
        watch = None
        if os.isatty(2):  # the progress line is imported only when it can be shown
            from npudoctor.cli.terminal import progress

            watch = progress.watch_checks
        ignored = {}
        for name, reason in config.ignore.items():
            # A code of a check that could not be loaded resolves to that check, and ignores nothing.
            (resolved,) = self.resolve([name], ignorable, config.origin[f"ignore {name}"])
            ignored[name if "." in name else resolved] = reason
        return Settings(
            select=select,
            ignore=ignored,
            scope=config["scope"],
            profile=config["profile"],
            fail_on=Severity[config["fail_on"].upper()],
            # The time of --wait comes on top, as the user asked for it.
            timeout=config["timeout"] + config["wait"],
            deadline=self.deadline + config["wait"],
            explain=self._explain,
            watch=watch,
        )

    def _explain(self, rows: Sequence[Result]) -> Sequence[Result]:
        """Add to the findings of deep checks what `explain` makes of their output; called only when
        needed."""
        from npudoctor.explain.findings import explain_findings

        codes = {check.id: tuple(check.codes) for check in self.loaded.checks}
        return explain_findings(rows, self.host.knowledge, codes)

    def resolve(self, names: Iterable[str], allowed: set[str], origin: str = "") -> Iterator[str]:
        """Yield the names in `known`, and for a name of a check that could not be loaded that check's id.

        `named`: the option or file, for the UsageError about an unknown name.
        """
        for name in names:
            if name in allowed:
                yield name
                continue
            broken = self.loaded.find_broken(name)
            if broken is not None:
                yield broken.check
                continue
            reason = self.loaded.explain_group_or_tag(name)
            if reason:
                raise UsageError(f"{origin}: {reason}" if origin else reason)
            hint = self.loaded.not_loaded_hint() + suggestion(name, allowed)
            text = (
                _(
                    "{option}: no such check or code: {name}{suggestion}",
                    option=origin,
                    name=name,
                    suggestion=hint,
                )
                if origin
                else _("no such check, group, tag or code: {name}{suggestion}", name=name, suggestion=hint)
            )
            raise UsageError(text)


@contextlib.contextmanager
def open_session(flags: Flags, caller: Caller, owners: frozenset[int] = frozenset()) -> Iterator[Session]:
    """A context with a Session for the flags of a command; processes that it started end with it."""
    started = time.monotonic()
    signals.keep_child_statuses()
    output.redirect_stdout()
    disk = LocalDisk()
    host: Optional[Host] = None
    try:
        identity = current_identity(owners)
        files = Files(disk)
        config = load_config(flags, caller.variables, files, identity.home)
        set_language_and_warn(config, config["format"], caller)
        disk.deadline = min(disk.deadline, 0.3 * min(config["timeout"], config["deadline"]))
        root = None
        if flags.get("root") is not None:
            from npudoctor.cli.arguments.paths import resolve_image

            root = resolve_image(str(flags["root"]), files)
        # A longer default when the frameworks are imported.
        selection = flags.get("names")
        names = selection if isinstance(selection, (list, tuple)) else ()
        is_deep = config["profile"] == DEEP or any(
            str(name).partition(".")[0] in DEEP_NAMES for name in names
        )
        total_seconds: float = (
            DEEP_SECONDS if is_deep and "deadline" not in config.origin else config["deadline"]
        )
        # The rest of the time is for abandoning checks that hang, and for writing the output.
        deadline = total_seconds - min(2 * GRACE, total_seconds / 4)
        until = started + deadline + config["wait"]
        variables, options = _variables_and_options(flags, caller, config, files, root, until)
        host = Host(
            options,
            disk=disk,
            variables=variables,
            identity=identity,
            records=Records.for_identity(
                identity, caller.variables
            ),  # the caller's journal, also with --env-of and --as-user
        )
        loaded = registry.load_all(caller.variables, deadline * LOADING)
        yield Session(config, host, loaded, until, total_seconds)
    finally:
        (disk if host is None else host).close()


def _variables_and_options(
    flags: Flags, caller: Caller, config: Config, files: Files, root: Optional[str], until: float
) -> tuple[Mapping[str, str], Options]:
    """The variables and options of the host; modules that read an option are imported only when it is
    given."""
    python = user = job = None
    variables, pid, is_foreign, as_user = caller.variables, 0, False, None
    if any(flags.get(name) is not None for name in ("env_of", "source", "root")):
        from npudoctor.cli.arguments.examined import examined_variables

        seconds = min(config["timeout"], config["deadline"] / 2)
        variables, pid, is_foreign, as_user = examined_variables(
            flags, variables, files, as_root=current_identity().is_root, seconds=seconds
        )
    like, first_folder = flags.get("like"), flags.get("first_folder")
    snapshot: object = None
    if like is not None:
        from npudoctor.cli.arguments.snapshot_file import read_snapshot

        snapshot = read_snapshot(str(like), "--like")
    if config["python"] is not None:
        from npudoctor.cli.arguments.paths import resolve_interpreter

        python = resolve_interpreter(config, Files(files.disk, root or "/"), root)
    if flags.get("user") is not None or flags.get("job") is not None:
        from npudoctor.cli.arguments.examined import parse_job, parse_user

        user, job = parse_user(flags.get("user")), parse_job(flags.get("job"))
    if flags.get("as_user") is not None:
        from npudoctor.cli.arguments.examined import parse_account

        if pid:
            raise UsageError(
                _("{one} and {other} cannot be used together", one="--env-of", other="--as-user")
            )
        as_user = parse_account(flags["as_user"])
    kind, _equal, count = config["expect"].partition("=")
    options = Options(
        kind,
        python,
        root,
        timeout=min(config["timeout"], config["deadline"]),
        knowledge=knowledge_directory(caller.variables),
        env_of=pid,
        foreign_variables=is_foreign,
        peers=config["peers"],
        wait=config["wait"],
        only_user=user,
        only_job=job,
        until=until,
        like=snapshot,
        like_path=str(like or ""),
        expect_count=int(count or 0),
        vendor_tools=config["profile"] != "quick",
        first_folder=first_folder if isinstance(first_folder, str) else None,
        own_python=flags.get("own_python") is not False,
        as_user=as_user,
    )
    return variables, options
