"""Do the variables that tell a process its rank agree with each other and with this machine?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    _,
    check,
)
from npudoctor.facts.job.launchers import (
    ASCEND,
    LAUNCHERS,
    MSRUN,
    NODES,
    PADDLE,
    TORCH,
    LauncherVariables,
    find_beyond_count,
    find_clashing_sizes,
    find_contradictions,
    find_unreadable,
    parse_count,
)
from npudoctor.host import CannotTell

# torch.distributed finds rank 0 by these two (init_method env://).
MEETING = ("MASTER_ADDR", "MASTER_PORT")
# MindSpore's dynamic cluster needs all three in every process.
SCHEDULER = ("MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")
# MS_PSERVER and MS_SERVER are the roles of parameter servers and of federated learning.
ROLES = ("MS_SCHED", "MS_WORKER", "MS_PSERVER", "MS_SERVER")
# One of these must be there before anything is read: a job that only Slurm started has nothing to compare.
TELLING = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "RANK_ID",
    "RANK_SIZE",
    "MS_ROLE",
    "MS_WORKER_NUM",
    "MS_NODE_ID",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_TRAINER_ENDPOINTS",
    "NODE_RANK",
    "PET_NODE_RANK",
)


@check(
    "rank-env",
    scope=Scope.JOB,
    tags={"hccl", "launcher"},
    needs=tuple(f"${name}" for name in TELLING),
    codes={
        "rank-env.bad-value": ERROR,
        "rank-env.out-of-range": ERROR,
        "rank-env.disagree": WARNING,
        "rank-env.no-device": WARNING,
        "rank-env.half-set": WARNING,
    },
)
def rank_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The rank variables are consistent and match this machine.

    ## What it does

    Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and NODE_RANK (torchrun), RANK_ID and RANK_SIZE,
    MS_ROLE, MS_WORKER_NUM, MS_NODE_ID, MS_SCHED_HOST and MS_SCHED_PORT (msrun), PADDLE_*, and compares them
    with each other and with those of Open MPI, MPICH and a Slurm step.

    - `rank-env.bad-value`: a rank or a count is not a number, or MindSpore does not know the role. `-1` in
      LOCAL_RANK means "not set".
    - `rank-env.out-of-range`: a rank is not below the number of ranks; a warning for NODE_RANK and NNODES,
      which scripts pass on to torchrun.
    - `rank-env.disagree`: two launchers give the same number of ranks and number this process differently;
      information for two counts of which neither can be a part of the other. Also: MS_WORKER_NUM differs from
      RANK_SIZE; LOCAL_RANK is above RANK; Paddle's list of endpoints does not match its own rank or count.
    - `rank-env.no-device`: LOCAL_RANK or LOCAL_WORLD_SIZE exceeds the devices that this job sees. Nothing is
      reported where it sees one device: then each process has its own, whatever its number is.
    - `rank-env.half-set`: MS_ROLE is set without the scheduler's address. Information where LOCAL_RANK and
      RANK are set and one of WORLD_SIZE, MASTER_ADDR and MASTER_PORT is not: the script may set them itself.

    Counts that may be a part of each other are not reported: on Kubernetes RANK and WORLD_SIZE count pods
    before torchrun starts, and a Slurm step may start one torchrun on each node. `rank-table` checks the rank
    table, `master-address` checks MASTER_ADDR.

    ## Why it matters

    Two processes with the same rank, or a rank without a process, are not noticed at the start: all others
    wait until HCCL_CONNECT_TIMEOUT ends, and the message names a socket.

    ## Fix safety

    The lines are `unset` for the shell that starts the launcher, which then sets them itself.

    ## References

    - PyTorch, torchrun; MindSpore, msrun; PaddlePaddle, paddle.distributed.launch; sbatch(1); mpirun(1).
    """
    variables = host.variables
    if not any(name in variables for name in TELLING):
        raise Skip(_("no variable sets a rank"))

    names = [name for launcher in (*LAUNCHERS, *NODES) for name in launcher.all if name in variables]
    yield Facts({"variables": {name: variables[name] for name in dict.fromkeys(names)}})
    yield from _judge_each(variables)
    yield from _compare_launchers(variables)
    yield from _judge_mindspore(variables)
    yield from _judge_paddle(variables)
    yield from _judge_devices(host, variables)
    # A process with LOCAL_RANK was started by a launcher already. Before that, the launcher sets the missing
    # ones.
    if not variables.get("RANK") or not variables.get("LOCAL_RANK"):
        return
    missing = [name for name in ("WORLD_SIZE", *MEETING) if not variables.get(name)]
    if missing:
        yield _report_half_set("torchrun", missing, (*TORCH.all, *MEETING), variables, INFO)


def _judge_each(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the variables of each launcher by themselves."""
    for names in (TORCH, MSRUN, ASCEND, PADDLE):
        unreadable_names = find_unreadable(names, variables)
        if unreadable_names:
            # These values are not numbers.
            values_text = ", ".join(f"{name}={variables[name][:SHOWN]}" for name in unreadable_names)
            yield _finding(
                "bad-value",
                _("{given}: a rank must be an integer >= 0, and a count an integer >= 1", given=values_text),
                names.all,
                variables,
                names if names.ours else None,
            )
        for index, count in find_beyond_count(names, variables):
            yield _report_out_of_range(names, index, count, variables, None)
    for names in NODES:
        for index, count in find_beyond_count(names, variables):
            yield _report_out_of_range(names, index, count, variables, WARNING)
    rank, local = parse_count(variables.get("RANK")), parse_count(variables.get("LOCAL_RANK"))
    if rank is not None and local is not None and local > rank:
        yield _report_disagreement(
            _("RANK is {rank}, less than LOCAL_RANK ({local})", local=local, rank=rank), TORCH.all, variables
        )


def _compare_launchers(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Report contradictions between the variables of two launchers."""
    for first, second in find_contradictions(variables):
        message = _(
            "{one}={rank} ({launcher}), but {other}={other_rank} ({other_launcher}), both with {size} ranks",
            one=first.names.rank,
            rank=first.rank,
            launcher=first.names.launcher,
            other=second.names.rank,
            other_rank=second.rank,
            other_launcher=second.names.launcher,
            size=first.size,
        )
        yield _report_disagreement(message, (*first.names.all, *second.names.all), variables)
    # Neither count divides the other, so one launcher's ranks cannot be a part of the other's.
    for first, second in find_clashing_sizes(variables):
        message = _(
            "{one}={size} ({launcher}), but {other}={other_size} ({other_launcher}): neither is a "
            "multiple of the other",
            one=first.names.size,
            size=first.size,
            launcher=first.names.launcher,
            other=second.names.size,
            other_size=second.size,
            other_launcher=second.names.launcher,
        )
        yield _report_disagreement(message, (*first.names.all, *second.names.all), variables, INFO)


def _judge_mindspore(variables: Mapping[str, str]) -> Iterator[Finding]:
    role = variables.get("MS_ROLE")
    if role is None:
        return
    names = ("MS_ROLE", *SCHEDULER)
    if role not in ROLES:
        message = _("MS_ROLE is {role}, but must be MS_SCHED or MS_WORKER", role=role[:SHOWN])
        yield _finding("bad-value", message, ("MS_ROLE",), variables)
    missing = [name for name in SCHEDULER if not variables.get(name)]
    if missing:
        yield _report_half_set("msrun", missing, names, variables, WARNING)
    workers, size = (parse_count(variables.get(name)) for name in (MSRUN.size, "RANK_SIZE"))
    if workers and size and workers != size and not (workers % size and size % workers):
        yield _report_disagreement(
            _("MS_WORKER_NUM is {workers}, but RANK_SIZE is {size}", workers=workers, size=size),
            (*names, "RANK_SIZE"),
            variables,
        )


def _judge_paddle(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Judge Paddle's list of endpoints: one for each trainer, none twice, and this process's own at its
    rank."""
    names = (*PADDLE.all, "PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT")
    listed = variables.get("PADDLE_TRAINER_ENDPOINTS", "")
    if not listed:
        return
    endpoints = [endpoint.strip() for endpoint in listed.split(",")]
    size, rank = (parse_count(variables.get(name)) for name in (PADDLE.size, PADDLE.rank))
    own_endpoint = variables.get("PADDLE_CURRENT_ENDPOINT")
    if size and size != len(endpoints):
        yield _report_disagreement(
            _(
                "PADDLE_TRAINERS_NUM is {size}, but PADDLE_TRAINER_ENDPOINTS lists {count}",
                size=size,
                count=len(endpoints),
            ),
            names,
            variables,
        )
    elif len(set(endpoints)) < len(endpoints):
        repeated = next(endpoint for endpoint in endpoints if endpoints.count(endpoint) > 1)
        yield _report_disagreement(
            _("PADDLE_TRAINER_ENDPOINTS lists {endpoint} more than once", endpoint=repeated), names, variables
        )
    elif own_endpoint and rank is not None and rank < len(endpoints) and endpoints[rank] != own_endpoint:
        yield _report_disagreement(
            _(
                "PADDLE_CURRENT_ENDPOINT is {mine}, but rank {rank} is {other} in PADDLE_TRAINER_ENDPOINTS",
                mine=own_endpoint,
                rank=rank,
                other=endpoints[rank],
            ),
            names,
            variables,
        )


def _judge_devices(host: Host, variables: Mapping[str, str]) -> Iterator[Finding]:
    devices = _count_devices(host, variables)
    if devices < 2:  # with one for each process LOCAL_RANK counts processes: so pin Ray, vLLM and Slurm
        return
    # LOCAL_RANK counts from 0; LOCAL_WORLD_SIZE is a count.
    for name, spare in (("LOCAL_RANK", 1), ("LOCAL_WORLD_SIZE", 0)):
        value = parse_count(variables.get(name))
        if value is not None and value + spare > devices:
            # More ranks here than devices.
            if name == "LOCAL_RANK":
                text = _("LOCAL_RANK is {value}, but this machine has {devices} devices, 0 to {last}")
            else:
                text = _("{name} is {value}, but this machine has only {devices} devices")
            message = text.format(name=name, value=value, devices=devices, last=devices - 1)
            names = (name, "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
            yield _finding("no-device", message, names, variables)
            return


def _count_devices(host: Host, variables: Mapping[str, str]) -> int:
    """Return how many devices this job sees; 0 if it uses none or if that is unknown."""
    if host.options.expect == "none":
        return 0
    try:
        npus, gpus = len(host.npus.nodes), len(host.gpus.nodes)
    except CannotTell:
        # With an unknown number of devices no rank can be beyond them.
        return 0
    counts = []
    for nodes, name in ((npus, "ASCEND_RT_VISIBLE_DEVICES"), (gpus, "CUDA_VISIBLE_DEVICES")):
        listed = variables.get(name, "")
        counts.append(min(nodes, len(listed.split(","))) if listed else nodes)
    return max(counts)


SHOWN = 80  # of a value


def _report_out_of_range(
    names: LauncherVariables,
    index: str,
    count: str,
    variables: Mapping[str, str],
    severity: Optional[Severity],
) -> Finding:
    """Report a rank that is not below the number of ranks."""
    most = int(variables[count])
    message = _(
        "{index} is {value}, but {count} is {most}: the ranks are 0 to {last}",
        index=index,
        value=variables[index],
        count=count,
        most=most,
        last=most - 1,
    )
    return _finding("out-of-range", message, names.all, variables, names, severity)


def _report_disagreement(
    message: str, names: Iterable[str], variables: Mapping[str, str], severity: Optional[Severity] = None
) -> Finding:
    """Report variables that contradict each other."""
    return _finding("disagree", message, names, variables, severity=severity)


def _report_half_set(
    launcher: str,
    missing: Sequence[str],
    names: Iterable[str],
    variables: Mapping[str, str],
    severity: Severity,
) -> Finding:
    """Report a launcher's variables of which some are missing."""
    message = _(
        "only some of the variables of {launcher} are set; missing: {missing}",
        launcher=launcher,
        missing=", ".join(missing),
    )
    return _finding("half-set", message, names, variables, severity=severity)


def _finding(
    code: str,
    message: str,
    names: Iterable[str],
    variables: Mapping[str, str],
    unset: Optional[LauncherVariables] = None,
    severity: Optional[Severity] = None,
) -> Finding:
    set_names = [name for name in dict.fromkeys(names) if name in variables]
    fix = None
    if unset is not None:
        steps = tuple(Command(("unset", name)) for name in unset.all if name in variables)
        fix = Fix(
            _("let {launcher} set them", launcher=unset.launcher), steps, risk=Risk.MANUAL, needs_root=False
        )
    return Finding(
        f"rank-env.{code}",
        message,
        severity=severity,
        evidence=tuple(f"{name}={variables[name][:SHOWN]}" for name in set_names),
        action=Action.CONFIG,
        fix=fix,
    )
