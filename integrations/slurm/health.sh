#!/bin/sh
# HealthCheckProgram=, with HealthCheckNodeState=IDLE: drains a sick node with our reason, resumes it once it is well,
# and leaves alone what anybody else drained.
here=${0%/*}
. "$here/common.sh"
node=${SLURMD_NODENAME:-$(hostname -s)}

# The node's reason and state now; we end where slurmctld does not answer, as nothing can be done.
look() {
    shown=$(timeout 10 scontrol -o show node "$node") || exit 0
    theirs=$(printf '%s\n' "$shown" | sed -n 's/.* Reason=\(.*\) \[[^]]*\].*/\1/p')
    state=$(printf '%s\n' "$shown" | sed -n 's/.* State=\([^ ]*\).*/\1/p')
}

# Somebody else's reason stays, whatever we think.
leave_others_alone() {
    case $theirs in
    "" | npudoctor:*) ;;
    *) exit 0 ;;
    esac
}

look
# What prolog.sh drained bears Slurm's words until we say ours.
if [ "$theirs" = "Prolog error" ] && [ -s "$STATE/reason" ]; then
    theirs=$(cat "$STATE/reason")
    scontrol update "NodeName=$node" State=DRAIN "Reason=$theirs"
fi
leave_others_alone

verdict
look # the doctor takes seconds, in which somebody may have drained the node
leave_others_alone
if drains; then
    [ "$(reason)" = "$theirs" ] || scontrol update "NodeName=$node" State=DRAIN "Reason=$(reason)"
elif [ "$status" = 0 ]; then
    rm -f "$STATE/reason"
    case $state in
    *DRAIN*) [ -z "$theirs" ] || scontrol update "NodeName=$node" State=RESUME ;;
    esac
fi
exit 0
