#!/bin/sh
# Epilog=: what dead cache servers of the ended job's user left is removed: proven dead, and nobody else's. A server
# names no job; that of another job of this user lives, and is not touched.
# Always 0: a leftover is no reason to drain; the next prolog or health check judges the node.
here=${0%/*}
. "$here/common.sh"

[ -n "$SLURM_JOB_USER" ] || exit 0
doctor fix --cache-server --yes --user "$SLURM_JOB_USER" --owner "$SLURM_JOB_USER" --lang en
[ "$status" = 0 ] || echo "npudoctor: job ${SLURM_JOB_ID:-?}: $(short "$said") (status $status)" >&2
exit 0
