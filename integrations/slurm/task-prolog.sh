#!/bin/sh
# TaskProlog=: what is wrong with the job's own environment stands in the task's output, before its first line.
# slurmstepd reads this output: a line that begins with `print` goes to the task.
here=${0%/*}
. "$here/common.sh"

[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0 # one of the tasks on a node speaks for all
doctor check --scope job --deadline 6 --lang en -q
[ "$status" = 1 ] || exit 0
echo "print npudoctor: ${SLURMD_NODENAME:-this node}: $(short "$said")"
[ "$TASK" = print ] || exit 1
