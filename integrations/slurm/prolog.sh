#!/bin/sh
# Prolog=: a node that cannot train is drained before the job starts, and Slurm requeues the job.
# It calls no command of Slurm; health.sh writes the reason, which Slurm calls "Prolog error" until then.
here=${0%/*}
. "$here/common.sh"

verdict
drains || {
    rm -f "$STATE/reason" # whatever fails next is somebody else's
    [ "$status" = 0 ] || echo "$(reason) (job ${SLURM_JOB_ID:-?}, which starts all the same)" >&2
    exit 0
}
echo "$(reason) (job ${SLURM_JOB_ID:-?})" >&2 # slurmd.log has it, whatever becomes of the next line
reason >"$STATE/reason"
exit 1
