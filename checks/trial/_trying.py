"""What the checks of this group share: whether anything is tried, and what is said where no answer came."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.trial.trials import Trial

# The variables in which launchers count the ranks of a node.
RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
MOST_RANKS = 64


def allowed(host: Host) -> None:
    """Skip where nothing is tried here."""
    why = host.trials.why_not()
    if why is not None:
        raise Skip(why)


def incomplete(trial: Trial) -> None:
    """Unknown where it did not come to its end; what it had found until then was said before."""
    if trial.hung is not None:
        raise Unknown(_("the trial did not finish in time; it waited in {step}", step=trial.hung or "start"))
    if trial.died is not None and not trial.signal:
        step = trial.died or "start"
        raise Unknown(_("the trial exited in {step}: {why}", step=step, why=f"`{trial.last_line}`"))
    if trial.died is not None:
        raise Unknown(
            _(
                "the trial was ended by signal {number} in {step}",
                number=trial.signal,
                step=trial.died or "start",
            )
        )


def ranks_of_node(host: Host) -> int:
    """Those of this node, at least one."""
    for name in RANKS:
        value = host.variables.get(name, "")
        if value.isascii() and value.isdigit():
            return max(1, min(MOST_RANKS, int(value[:6])))
    return max(1, len(host.npus.nodes) or len(host.gpus.nodes))
