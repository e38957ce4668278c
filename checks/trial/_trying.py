"""What the checks of this group share: whether anything is tried, and what is said where no answer came."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.trial.trials import Trial

# The variables in which launchers count the ranks of a node.
RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# A wrong variable must not make the trial start thousands of processes.
MOST_RANKS = 64


def skip_unless_allowed(host: Host) -> None:
    """Raise Skip if no trial runs here."""
    why = host.trials.why_not()
    if why is not None:
        raise Skip(why)


def raise_if_incomplete(trial: Trial) -> None:
    """Raise Unknown if the trial did not finish; the caller has yielded what it found until then."""
    if trial.hung is not None:
        raise Unknown(_("the trial did not finish in time; it waited in {step}", step=trial.hung or "start"))
    if trial.died is not None and not trial.signal:
        step = trial.died or "start"
        raise Unknown(_("the trial exited in {step}: {why}", step=step, why=f"`{trial.last_line}`"))
    if trial.died is not None:
        raise Unknown(
            _(
                "the trial was killed by signal {number} in {step}",
                number=trial.signal,
                step=trial.died or "start",
            )
        )


def count_ranks(host: Host) -> int:
    """Return the number of ranks on this node, 1 to MOST_RANKS by the launcher's variable, else one for each
    accelerator."""
    for name in RANKS:
        value = host.variables.get(name, "")
        if value.isascii() and value.isdigit():
            return max(1, min(MOST_RANKS, int(value[:6])))
    return max(1, len(host.npus.nodes) or len(host.gpus.nodes))
