#!/bin/sh
# Prolog=: a node that cannot train is drained before the job starts, and Slurm requeues the job.
# It calls no command of Slurm; health.sh writes the reason, which Slurm calls "Prolog error" until then.
here=${0%/*}
. "$here/common.sh"

verdict
drains || {
    rm -f "$STATE/reason" # whatever fails next is somebody else's
    exit 0
}
reason >"$STATE/reason"
echo "$(reason) (job ${SLURM_JOB_ID:-?})" >&2 # slurmd.log has it too
exit 1
