"""Is this node like the one of which a snapshot was taken?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import pip_fix
from npudoctor.core.lazy import pattern
from npudoctor.facts.snapshot.compare import (
    DEVICE,
    LIMIT,
    NETWORK,
    PACKAGE,
    SYSTEM,
    VARIABLE,
    VERSION,
    Difference,
    SnapshotComparison,
    compare_section,
    only_in,
)
from npudoctor.facts.snapshot.document import Snapshot
from npudoctor.facts.snapshot.sections import READERS, read_section
from npudoctor.facts.snapshot.values import Value, not_running

NAMED = 3  # differences in the message; all of them are evidence
MOST = 60  # lines of evidence
LONGEST = 80  # characters of a value in a message
SHOWN = 500  # and in the evidence

# A snapshot is a file that anybody may have written: only plain names and releases become part of a command
# that somebody pastes.
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,100}\Z")
_RELEASE = pattern(r"[a-z0-9][a-z0-9-]{0,100}==[0-9][A-Za-z0-9.+!_-]{0,60}\Z")


@check(
    "like-snapshot",
    scope=Scope.JOB,
    codes={
        "like-snapshot.version": ERROR,
        "like-snapshot.device": ERROR,
        "like-snapshot.network": WARNING,
        "like-snapshot.variable": WARNING,
        "like-snapshot.limit": WARNING,
        "like-snapshot.package": WARNING,
        "like-snapshot.system": INFO,
    },
    always=True,
)
def like_snapshot(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This node matches the snapshot.

    ## What it does

    Compares this node with the file that `--like` names, which `npudoctor snapshot` wrote on a node that
    trains well. It reads the same facts as a snapshot. Without that option the check is left out; with it,
    the check runs in every scope and profile. A report (`check --format json`) can be given too: then only
    the facts in the report are compared.

    - `like-snapshot.version`: CANN, the driver, the firmware, a framework, an extension of a framework or
      Python (3.11, not 3.11.7) has a different version here, or is missing.
    - `like-snapshot.device`: this node has fewer NPUs or GPUs than the snapshot, or a different model.
    - `like-snapshot.network`: a network interface, its state or MTU, or a setting of an NPU's network port
      differs.
    - `like-snapshot.variable`: an environment variable of the job differs. Variables of ranks and shells are
      left out, and so are those whose value a snapshot hides.
    - `like-snapshot.limit`: a limit is lower here. A higher one does no harm.
    - `like-snapshot.package`: another Python package is missing here or has a different version. A package
      that only this node has is not reported.
    - `like-snapshot.system`: the kernel, its settings, the distribution or a path differs.

    A fact that could not be read on one of the two nodes makes the result unknown, unless neither can be seen
    from here. For an image (`--root`), only what is installed in it is compared.

    ## Why it matters

    An error is a difference that ends the job or keeps its ranks from connecting: HCCL and NCCL require one
    version on all nodes, another CANN has other operators, and a rank without a device has nothing to run on.
    Any other difference explains why one node of many is slow or fails later: that is a warning. A different
    patch level of the kernel is seldom the cause, so it is information.

    ## Fix safety

    All fixes are shown only: the node of the snapshot may itself be wrong. Values that are paths must be set
    by hand, because the folders may not exist here.

    ## References

    - HCCL user guide: the same versions of driver, firmware and CANN on all servers of a job.
    - `npudoctor snapshot`, `npudoctor diff A B`, docs/cli.md.
    """
    snapshot = host.options.like
    if not isinstance(snapshot, Snapshot):
        raise Skip(_("no snapshot was given; use --like FILE"))
    yield Facts({"snapshot": host.options.like_path, "node": snapshot.node, "started": snapshot.started})
    unknown: list[str] = []
    for name in READERS:
        comparison = compare_section(read_section(name, host), snapshot)
        # One finding for each code: the differences of a kind have one remedy.
        grouped: dict[tuple[str, Severity], list[Difference]] = {}
        for entry in comparison.differences:
            severity = _severity(entry, comparison)
            if severity is not None:
                kind = entry.kind if severity > INFO or entry.kind == DEVICE else SYSTEM
                grouped.setdefault((kind, severity), []).append(entry)
        for (kind, severity), members in grouped.items():
            more = f" (+{len(members) - NAMED})" if len(members) > NAMED else ""
            shown = "; ".join(_line(entry, LONGEST) for entry in members[:NAMED]) + more
            yield Finding(
                f"like-snapshot.{kind}",
                _kind_text(kind).format(differences=shown),
                severity,
                evidence=tuple(_line(entry, SHOWN) for entry in members[:MOST]),
                action=Action.NONE if severity is INFO else Action.CONFIG,
                echo_of=("accelerator.missing",) if kind == DEVICE else (),
                fix=_fix_differences(host, kind, members),
            )
        unknown += [
            f"{entry.section}{f' {entry.fact}' if entry.fact else ''}: {entry.reason}"
            for entry in comparison.uncompared
            if entry.decides and (snapshot.whole or entry.which == 1) and entry.reason != not_running()
        ]
    if unknown:
        more = f" (+{len(unknown) - NAMED})" if len(unknown) > NAMED else ""
        raise Unknown(
            _("could not compare with the snapshot: {facts}", facts="; ".join(unknown[:NAMED]) + more)
        )


def _fix_differences(host: Host, kind: str, members: Sequence[Difference]) -> Optional[Fix]:
    """Return the commands that remove the differences, if commands can. Each word from the file is
    validated."""
    if kind in (VERSION, PACKAGE):
        releases = [
            f"{difference.fact}=={difference.second}"
            for difference in members
            if difference.section == "packages"
        ]
        releases = [release for release in releases if _RELEASE.match(release)]
        title = _("install the versions of the snapshot")
        return pip_fix(host, title, ("install", *releases)) if releases else None
    if kind == VARIABLE:
        steps = tuple(step for step in map(_variable_step, members) if step is not None)
        title = _("set the variables in the shell that starts the job")
        return Fix(title, steps, risk=Risk.MANUAL, needs_root=False) if steps else None
    return None


def _kind_text(kind: str) -> str:
    return {
        VERSION: _("versions differ from the snapshot: {differences}"),
        DEVICE: _("accelerators differ from the snapshot: {differences}"),
        NETWORK: _("the network differs from the snapshot: {differences}"),
        VARIABLE: _("variables differ from the snapshot: {differences}"),
        LIMIT: _("limits are lower than in the snapshot: {differences}"),
        PACKAGE: _("Python packages differ from the snapshot: {differences}"),
        SYSTEM: _("the system differs from the snapshot: {differences}"),
    }[kind]


def _severity(difference: Difference, comparison: SnapshotComparison) -> Optional[Severity]:
    """Return the severity of a difference; None if it does not matter."""
    if difference.kind == VERSION:
        if difference.section == "cann" and difference.fact == "component":
            # Reported already by the difference of CANN's own version.
            version_differs = any(
                other.section == "cann" and other.fact == "version" for other in comparison.differences
            )
            return None if version_differs else ERROR
        if difference.section == "python":
            # 3.11.7 and 3.11.9 load the same extension modules (PEP 3149: cpython-311).
            return INFO if _series(difference.first) == _series(difference.second) else ERROR
        return None if difference.second in (None, ()) else ERROR
    if difference.kind == DEVICE:
        # Whether this node has fewer devices, or another model than the snapshot names.
        if isinstance(difference.first, int) and isinstance(difference.second, int):
            return ERROR if difference.first < difference.second else INFO
        return ERROR if difference.fact.endswith("models") and difference.second not in (None, ()) else INFO
    if difference.kind == LIMIT:
        return WARNING if _is_lower(difference.first, difference.second) else None
    if difference.kind in (NETWORK, PACKAGE):
        # What only this node has, or what is up only here, stops nobody.
        return None if difference.second is None or difference.first == "up" else WARNING
    return WARNING if difference.kind == VARIABLE else INFO


def _series(version: Value) -> list[str]:
    return str(version).split(".")[:2]


def _is_lower(own_value: Value, snapshot_value: Value) -> bool:
    """Whether a limit is lower here. Values that cannot be compared count as lower."""
    if own_value == "unlimited" or snapshot_value is None:
        return False
    if isinstance(own_value, int) and isinstance(snapshot_value, int):
        return own_value < snapshot_value
    return True


def _line(difference: Difference, most: int) -> str:
    """Return one difference as text, values cut to `most` characters. Of two lists, only what differs."""
    own_value, snapshot_value = difference.first, difference.second
    only_own, only_snapshot = only_in(own_value, snapshot_value), only_in(snapshot_value, own_value)
    if only_own is not None and only_snapshot is not None and (only_own or only_snapshot):
        parts = ((_("only here {entries}"), only_own), (_("only there {entries}"), only_snapshot))
        texts = [text.format(entries=_shorten(" ".join(entries), most)) for text, entries in parts if entries]
        return _("{fact}: {differences}", fact=_label(difference), differences=", ".join(texts))
    text = _("{fact}: {here} here, {there} there")
    return text.format(
        fact=_label(difference), here=_value_text(own_value, most), there=_value_text(snapshot_value, most)
    )


def _label(difference: Difference) -> str:
    """Return the name of the fact with its section where the name alone is ambiguous, such as version."""
    before = {"cann": "CANN ", "python": "Python ", "cgroup": "cgroup: "}.get(difference.section, "")
    return before + difference.fact


def _value_text(value: Value, most: int) -> str:
    if value is None or value == ():
        return _("none")
    return _shorten(" ".join(value) if isinstance(value, tuple) else str(value), most)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _variable_step(difference: Difference) -> Optional[Union[Command, Export]]:
    if not _VARIABLE.match(difference.fact):
        return None
    if difference.second is None:
        return Command(("unset", difference.fact))
    value = str(difference.second)
    # A folder of the other node may not exist here, so values with a path or a pattern are set by hand.
    return Export(difference.fact, value) if value.isprintable() and not {*value} & {"/", "*"} else None
