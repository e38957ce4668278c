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
    Comparison,
    Difference,
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

    Compares this node with the file of `--like`, which `npudoctor snapshot` wrote on a node that trains well,
    and reads what a snapshot reads. Without that option there is no row; with it there is one in every scope
    and profile. A report (`check --format json`) can be given too: then only the facts that it holds are
    compared.

    - `like-snapshot.version`: CANN, driver, firmware, a framework or what extends it, or Python (3.11, not
      3.11.7) is another one, or is missing here.
    - `like-snapshot.device`: there are fewer NPUs or GPUs than there, or those of another model.
    - `like-snapshot.network`: an interface, its state or its MTU, or a setting of an NPU's network port.
    - `like-snapshot.variable`: a variable of the job. Those of ranks and shells are left out, and those whose
      value a snapshot hides.
    - `like-snapshot.limit`: a limit that is lower here. A higher one stops nobody.
    - `like-snapshot.package`: another package of Python is missing here, or of another version. One that only
      this node has is no finding.
    - `like-snapshot.system`: the kernel, its settings, the distribution, a path.

    What one of the two could not read leaves the row unknown, unless neither can be seen from here. Of an
    image (`--root`) only what is installed in it is compared.

    ## Why it matters

    An error is what ends a job, or keeps its ranks from meeting: HCCL and NCCL want one version on all nodes,
    the operators of another CANN are other operators, and a rank without a device has nothing to run on. What
    differs otherwise explains why one node of many is slow, or fails later: that is a warning. A kernel of
    another patch level is seldom the cause, so it is information.

    ## Fix safety

    All fixes are shown only: the snapshot may be of a node that is wrong itself. Values that are paths are
    left to a person, as the folders may not be here.

    ## References

    - HCCL user guide: the same versions of driver, firmware and CANN on all servers of a job.
    - `npudoctor snapshot`, `npudoctor diff A B`, docs/cli.md.
    """
    wanted = host.options.like
    if not isinstance(wanted, Snapshot):
        raise Skip(_("no snapshot was given; pass --like FILE"))
    yield Facts({"snapshot": host.options.like_path, "node": wanted.node, "started": wanted.started})
    unknown: list[str] = []
    for name in READERS:
        comparison = compare_section(read_section(name, host), wanted)
        # One finding for each code: the differences of a kind have one remedy.
        grouped: dict[tuple[str, Severity], list[Difference]] = {}
        for one in comparison.differences:
            severity = _severity(one, comparison)
            if severity is not None:
                kind = one.kind if severity > INFO or one.kind == DEVICE else SYSTEM
                grouped.setdefault((kind, severity), []).append(one)
        for (kind, severity), members in grouped.items():
            more = f" (+{len(members) - NAMED})" if len(members) > NAMED else ""
            shown = "; ".join(_line(one, LONGEST) for one in members[:NAMED]) + more
            yield Finding(
                f"like-snapshot.{kind}",
                _text(kind).format(differences=shown),
                severity,
                evidence=tuple(_line(one, SHOWN) for one in members[:MOST]),
                action=Action.NONE if severity is INFO else Action.CONFIG,
                echo_of=("accelerator.missing",) if kind == DEVICE else (),
                fix=_alike(host, kind, members),
            )
        unknown += [
            f"{one.section}{f' {one.fact}' if one.fact else ''}: {one.reason}"
            for one in comparison.uncompared
            if one.decides and (wanted.whole or one.which == 1) and one.reason != not_running()
        ]
    if unknown:
        more = f" (+{len(unknown) - NAMED})" if len(unknown) > NAMED else ""
        raise Unknown(
            _("could not be compared with the snapshot: {facts}", facts="; ".join(unknown[:NAMED]) + more)
        )


def _alike(host: Host, kind: str, members: Sequence[Difference]) -> Optional[Fix]:
    """The lines that make it alike, where a line can; a file says what they are, so each word is judged."""
    if kind in (VERSION, PACKAGE):
        releases = [f"{one.fact}=={one.second}" for one in members if one.section == "packages"]
        releases = [release for release in releases if _RELEASE.match(release)]
        title = _("install the versions of the snapshot")
        return pip_fix(host, title, ("install", *releases)) if releases else None
    if kind == VARIABLE:
        steps = tuple(step for step in map(_variable_step, members) if step is not None)
        title = _("set the variables in the shell that starts the job")
        return Fix(title, steps, risk=Risk.MANUAL, needs_root=False) if steps else None
    return None


def _text(kind: str) -> str:
    return {
        VERSION: _("versions differ from the snapshot: {differences}"),
        DEVICE: _("accelerators differ from the snapshot: {differences}"),
        NETWORK: _("the network differs from the snapshot: {differences}"),
        VARIABLE: _("variables differ from the snapshot: {differences}"),
        LIMIT: _("limits are lower than in the snapshot: {differences}"),
        PACKAGE: _("Python packages differ from the snapshot: {differences}"),
        SYSTEM: _("the system differs from the snapshot: {differences}"),
    }[kind]


def _severity(one: Difference, comparison: Comparison) -> Optional[Severity]:
    """How much a difference matters; None when it does not."""
    if one.kind == VERSION:
        if one.section == "cann" and one.fact == "component":
            # The product's own version says it already.
            told = any(
                other.section == "cann" and other.fact == "version" for other in comparison.differences
            )
            return None if told else ERROR
        if one.section == "python":
            return INFO if _series(one.first) == _series(one.second) else ERROR
        return None if one.second in (None, ()) else ERROR
    if one.kind == DEVICE:
        # Whether this node has fewer devices, or another model than the snapshot names.
        if isinstance(one.first, int) and isinstance(one.second, int):
            return ERROR if one.first < one.second else INFO
        return ERROR if one.fact.endswith("models") and one.second not in (None, ()) else INFO
    if one.kind == LIMIT:
        return WARNING if _is_lower(one.first, one.second) else None
    if one.kind in (NETWORK, PACKAGE):
        # What only this node has, or what is up only here, stops nobody.
        return None if one.second is None or one.first == "up" else WARNING
    return WARNING if one.kind == VARIABLE else INFO


def _series(version: Value) -> list[str]:
    return str(version).split(".")[:2]


def _is_lower(here: Value, there: Value) -> bool:
    """Whether a limit is lower here; where that cannot be told from the words it is taken to be."""
    if here == "unlimited" or there is None:
        return False
    if isinstance(here, int) and isinstance(there, int):
        return here < there
    return True


def _line(one: Difference, most: int) -> str:
    """One difference; of two lists only what one of them has alone."""
    mine, theirs = only_in(one.first, one.second), only_in(one.second, one.first)
    if mine is not None and theirs is not None and (mine or theirs):
        parts = ((_("only here {entries}"), mine), (_("only there {entries}"), theirs))
        texts = [text.format(entries=_cut(" ".join(entries), most)) for text, entries in parts if entries]
        return _("{fact}: {differences}", fact=_label(one), differences=", ".join(texts))
    text = _("{fact}: {here} here, {there} there")
    return text.format(fact=_label(one), here=_word(one.first, most), there=_word(one.second, most))


def _label(one: Difference) -> str:
    """The fact as it is known outside of its section: there is a version of CANN and one of Python."""
    before = {"cann": "CANN ", "python": "Python ", "cgroup": "cgroup: "}.get(one.section, "")
    return before + one.fact


def _word(value: Value, most: int) -> str:
    if value is None or value == ():
        return _("none")
    return _cut(" ".join(value) if isinstance(value, tuple) else str(value), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _variable_step(one: Difference) -> Optional[Union[Command, Export]]:
    if not _VARIABLE.match(one.fact):
        return None
    if one.second is None:
        return Command(("unset", one.fact))
    value = str(one.second)
    return Export(one.fact, value) if value.isprintable() and not {*value} & {"/", "*"} else None
