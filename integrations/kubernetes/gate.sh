#!/bin/sh
# npudoctor-gate [OPTIONS OF CHECK]: check for a container: the report in the log, its short form for
# `kubectl describe` in the termination message, and the verdict as exit status.
# Status 2, undetermined, is 0 here unless NPUDOCTOR_UNDETERMINED=fail: what a container cannot see fails no pod.
message=${NPUDOCTOR_MESSAGE:-/dev/termination-log}
report=$(npudoctor check "$@" 2>&1)
status=$?
printf '%s\n' "$report"
# The verdict is at the end; Kubernetes keeps 4096 bytes of a container, 12 KiB of a pod.
printf '%s\n' "$report" | tail -c 2000 2>/dev/null >"$message" || :
[ "$status" != 2 ] || [ "${NPUDOCTOR_UNDETERMINED:-}" = fail ] || exit 0
exit "$status"
