#!/bin/sh
# HealthCheckProgram=, with HealthCheckNodeState=IDLE: drains a sick node with our reason, resumes it once it is well,
# and leaves alone what anybody else drained.
here=${0%/*}
. "$here/common.sh"
node=${SLURMD_NODENAME:-$(hostname -s)}

shown=$(timeout 10 scontrol -o show node "$node") || exit 0 # slurmctld does not answer: nothing can be done
theirs=$(printf '%s\n' "$shown" | sed -n 's/.* Reason=\(.*\) \[[^]]*\].*/\1/p')
state=$(printf '%s\n' "$shown" | sed -n 's/.* State=\([^ ]*\).*/\1/p')
# What prolog.sh drained bears Slurm's words until we say ours.
if [ "$theirs" = "Prolog error" ] && [ -s "$STATE/reason" ]; then
    theirs=$(cat "$STATE/reason")
    scontrol update "NodeName=$node" State=DRAIN "Reason=$theirs"
fi
case $theirs in
"" | npudoctor:*) ;;
*) exit 0 ;; # somebody else's reason, whatever we think
esac

doctor check $CHECK --lang en -q
if drains; then
    [ "$(reason)" = "$theirs" ] || scontrol update "NodeName=$node" State=DRAIN "Reason=$(reason)"
elif [ "$status" = 0 ]; then
    rm -f "$STATE/reason"
    case $state in
    *DRAIN*) [ -z "$theirs" ] || scontrol update "NodeName=$node" State=RESUME ;;
    esac
fi
exit 0
