"""Two snapshots side by side: what differs, what nobody can compare, what each node has for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.redact.bundle import helps_support
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.facts.snapshot.document import CHECK, Snapshot, Unread
from npudoctor.facts.snapshot.sections import OPEN, FactSection
from npudoctor.facts.snapshot.values import Value
from npudoctor.knowledge.distributions import list_built_in_names

# What a difference is about.
VERSION, DEVICE, NETWORK, VARIABLE, LIMIT, PACKAGE, SYSTEM, OTHER = (
    *("version", "device", "network", "variable", "limit", "package", "system", "other"),
)
_KINDS = {
    "accelerator": DEVICE,
    "network": NETWORK,
    "hccn": NETWORK,
    "variables": VARIABLE,
    "limits": LIMIT,
    "cgroup": LIMIT,
}
# In these sections only these facts are versions.
_VERSIONS = {
    "cann": {"version", "component"},
    "driver": {"NPU driver", "NPU firmware", "GPU driver", "CUDA of frameworks"},
    "python": {"version"},
}
# What extends the frameworks and the trainers' stack, besides the rows of our table.
_EXTENSIONS = (
    *("triton", "flash-attn", "mindspeed-llm", "te", "hccl", "apex", "sglang", "torchair"),
    *("nvidia-nccl-cu11", "nvidia-nccl-cu12"),
)

# Each rank and each launch has its own; a good node of yesterday has another one, and both are right.
_RANKS = frozenset(
    "RANK RANK_ID LOCAL_RANK NODE_RANK GROUP_RANK ROLE_RANK DEVICE_ID ASCEND_DEVICE_ID MASTER_ADDR"
    " MASTER_PORT HCCL_IF_IP POD_IP CM_CHIEF_IP CM_WORKER_IP TORCHELASTIC_RUN_ID".split()
)
# Who is logged in, and where: the shell's, not the job's.
_SHELLS = frozenset(
    "HOME USER LOGNAME HOST HOSTNAME PWD OLDPWD SHLVL SHELL TERM TERM_PROGRAM TERM_PROGRAM_VERSION TMUX"
    " TERMINFO NPUDOCTOR_LANG".split()
)
# Variables of launchers and of a login, which differ in each run.
_OF_A_LAUNCH = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "XDG_", "LC_")
# Leaves of the facts of checks that are addresses, names and numbers of this very node or moment.
_LEAVES = frozenset(
    "address addresses gateway netdetect pid pids uid user name home working_directory seconds holder"
    " holders free available used".split()
)
# Checks that measure the moment: space, processes, leftovers, who uses what.
_OF_THE_MOMENT = frozenset(
    (
        *("disk-space", "memory", "shm-size", "stale-processes", "shared-memory", "cache-server"),
        *("temp-files", "temporary-folders", "working-directory", "identity", "gpu-busy", "npu-busy"),
        *("hccl-ports", "package-files", "framework-modules", "framework-imports", "framework-selftest"),
        *("source-shadowing", "master-address", "rank-env", "like-snapshot"),
    )
)
# A section of a snapshot says the same, and more: told once.
_MAPPED = frozenset(("accelerator", "cann-install", "driver-firmware", "interpreter"))
_IN_SECTIONS = frozenset(
    (
        *("hccl-env", "nccl-env", "training-env", "log-settings", "paddle-flags", "python-variables"),
        *("package-requirements", "torch-family", "torch-npu", "vllm-ascend", "paddle-npu", "file-limits"),
        *("hccn-config", "cann-env", "scipy-version", "numpy-version", "conflicting-packages", "setuptools"),
        *("protobuf-implementation", "cann-driver", "import-limits", "library-path", "virtual-environment"),
        *("mindspore-cann", "paddle-cpu", "device-visibility", "gpu-visibility", "soc-match", "te-topi"),
    )
)


@dataclass(frozen=True)
class Difference:
    """A fact with two values; None: that node was looked at and has no such fact."""

    section: str
    fact: str
    kind: str
    first: Value
    second: Value


@dataclass(frozen=True)
class Uncompared:
    """What could not be compared. `fact` "": a whole section. `which`: 1 or 2, the side that does not tell.

    Not `decides`: neither side can tell it from its place, so that it is no sign of a difference.
    """

    section: str
    fact: str
    which: int
    reason: str
    decides: bool = True


@dataclass(frozen=True)
class SnapshotComparison:
    """The result. `own`: (section, fact) of what each node has for itself, and what is hidden. `alike`: the
    number of facts that agree.
    """

    differences: tuple[Difference, ...]
    uncompared: tuple[Uncompared, ...]
    own: tuple[tuple[str, str], ...]
    alike: int

    @property
    def exit_code(self) -> int:
        """0 alike, 1 different, 2 unknown."""
        return 1 if self.differences else 2 if any(gap.decides for gap in self.uncompared) else 0


class _SnapshotSide:
    """One of the two snapshots, with what it could not read indexed by name: a file may list a great many."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.whole, self.sections, self.unread = snapshot.whole, snapshot.sections, snapshot.unread
        self._unread = {(gap.section, gap.fact): gap for gap in snapshot.unread}

    def why_unread(self, section: str, fact: str) -> Optional[Unread]:
        """Why a fact is missing although the node may have it; None where nothing prevented reading it."""
        return self._unread.get((section, fact)) or self._unread.get((section, ""))


Outcome = Union[Difference, Uncompared, bool]  # True: alike; False: each node's own


def compare(one_side: Snapshot, other_side: Snapshot) -> SnapshotComparison:
    """Compare all facts that at least one snapshot has."""
    first, second = _SnapshotSide(one_side), _SnapshotSide(other_side)
    differences: list[Difference] = []
    uncompared: list[Uncompared] = []
    own: list[tuple[str, str]] = []
    alike = 0
    for section in _compared_sections(first, second):
        names = dict.fromkeys((*first.sections.get(section, ()), *second.sections.get(section, ())))
        for fact in list(names):
            outcome = _compare_fact(section, fact, first, second)
            if isinstance(outcome, Difference):
                differences.append(outcome)
            elif isinstance(outcome, Uncompared):
                uncompared.append(outcome)
            elif outcome:
                alike += 1
            else:
                own.append((section, fact))
    # Gaps of which the other side has no fact either were not met above.
    uncompared += list(_still_unread(first, second, uncompared))
    return SnapshotComparison(tuple(differences), _fold_uncompared(uncompared), tuple(own), alike)


def _compared_sections(first: _SnapshotSide, second: _SnapshotSide) -> Iterator[str]:
    left_out = _OF_THE_MOMENT | _MAPPED
    # Of a report the facts of these checks are all there is.
    if first.whole and second.whole:
        left_out |= _IN_SECTIONS
    for section in dict.fromkeys((*first.sections, *second.sections)):
        if not section.startswith(CHECK) or section[len(CHECK) :] not in left_out:
            yield section


def _compare_fact(section: str, fact: str, first: _SnapshotSide, second: _SnapshotSide) -> Outcome:
    if is_own(section, fact):
        return False
    values = []
    for which, side in ((1, first), (2, second)):
        value = _value_on(section, fact, side)
        if isinstance(value, Unread):
            return Uncompared(section, fact, which, value.reason)
        values.append(value)
    # Two hidden values may be equal or not; nobody knows.
    if HIDDEN in values and None not in values:
        return False
    if values[0] == values[1]:
        return True
    return Difference(section, fact, kind_of(section, fact), *values)


def _value_on(section: str, fact: str, side: _SnapshotSide) -> Union[Value, Unread]:
    """The value on one side, None where the node has none, or why it is unknown."""
    table = side.sections.get(section)
    if table is not None and fact in table:
        return table[fact]
    unread = side.why_unread(section, fact)
    if unread is not None:
        return unread
    of_check = section.startswith(CHECK)
    if table is None or not (of_check or (side.whole and section in OPEN)):
        return Unread(section, fact, _("not in a report") if not side.whole else _("not in this snapshot"))
    return None


def _still_unread(
    first: _SnapshotSide, second: _SnapshotSide, reported: list[Uncompared]
) -> Iterator[Uncompared]:
    """What a side could not read and for which no fact was compared: it is unknown whether that is alike."""
    known_gaps = {(gap.section, gap.fact) for gap in reported} | {(gap.section, "") for gap in reported}
    compared = set(_compared_sections(first, second))
    for which, side, other in ((1, first, second), (2, second, first)):
        for gap in side.unread:
            if gap.section in compared and (gap.section, gap.fact) not in known_gaps:
                known_gaps.add((gap.section, gap.fact))
                other_reason = other.why_unread(gap.section, gap.fact)
                from_here = gap.advisory and other_reason is not None and other_reason.advisory
                decides = not from_here and not gap.section.startswith(CHECK)
                yield Uncompared(gap.section, gap.fact, which, gap.reason, decides)


def _fold_uncompared(uncompared: list[Uncompared]) -> tuple[Uncompared, ...]:
    """Join the facts of a section that are uncompared for one reason: a report holds no packages."""
    groups: dict[tuple[str, int, str, bool], list[Uncompared]] = {}
    for gap in uncompared:
        groups.setdefault((gap.section, gap.which, gap.reason, gap.decides), []).append(gap)
    folded: list[Uncompared] = []
    for (section, which, reason, decides), members in groups.items():
        whole = len(members) > 3 or any(not gap.fact for gap in members)
        folded += [Uncompared(section, "", which, reason, decides)] if whole else members
    return tuple(folded)


def is_own(section: str, fact: str) -> bool:
    """Return whether a fact differs on every node, or at every moment, so that a difference means nothing."""
    if section == "variables":
        return not helps_support(fact) or fact in _RANKS | _SHELLS or fact.startswith(_OF_A_LAUNCH)
    if section == "python":
        return fact == "chosen by"
    return (section == "hccn" or section.startswith(CHECK)) and fact.rpartition(" ")[2] in _LEAVES | _RANKS


def stack_names() -> frozenset[str]:
    """The packages with another release of which a job is another job."""
    return list_built_in_names().union(_EXTENSIONS)


def kind_of(section: str, fact: str) -> str:
    """What a difference is about: one of the words above."""
    if fact in _VERSIONS.get(section, ()):
        return VERSION
    if section == "packages":
        return VERSION if fact in stack_names() else PACKAGE
    if section.startswith(CHECK):
        return OTHER
    return _KINDS.get(section, SYSTEM)


def only_in(value: Value, other: Value) -> Optional[list[str]]:
    """The entries of a list that the other list does not have; None where these are not two lists.

    A text with colons is a list: PATH, LD_LIBRARY_PATH.
    """
    parts, other_parts = _entries(value), _entries(other)
    if parts is None or other_parts is None:
        return None
    other_set = frozenset(other_parts)
    return [part for part in parts if part not in other_set]


def _entries(value: Value) -> Optional[list[str]]:
    if isinstance(value, tuple):
        return list(value)
    return value.split(":") if isinstance(value, str) and value.count("/") > 1 and ":" in value else None


def compare_section(section: FactSection, snapshot: Snapshot) -> SnapshotComparison:
    """Compare one section of this machine, first, with the same section of a snapshot, second."""
    # This machine's section becomes a snapshot of its own, so that one comparison serves both.
    here_unread = [
        Unread(section.name, fact.name, fact.unread, fact.advisory) for fact in section.facts if fact.unread
    ]
    if section.failed:
        here_unread.append(Unread(section.name, "", section.failed, section.advisory))
    here = Snapshot(
        "",
        "",
        True,
        {section.name: {fact.name: fact.value for fact in section.facts if not fact.unread}},
        tuple(here_unread),
    )
    table = snapshot.sections.get(section.name)
    unread = tuple(gap for gap in snapshot.unread if gap.section == section.name)
    there = Snapshot(
        snapshot.node,
        snapshot.started,
        snapshot.whole,
        {} if table is None else {section.name: table},
        unread,
    )
    return compare(here, there)
