# Read by the programs beside it. POSIX sh; slurmd gives no PATH.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
. "$here/npudoctor.conf"
[ -z "$SLURM_CONF" ] || export SLURM_CONF

# doctor WORDS...: one line in $said, the exit status in $status: 0, 1, 2, or something else for no verdict.
# Killed when it takes too long, with all that it started; a file, as a pipe would wait for whoever still holds it.
doctor() {
    # A full or hostile /tmp is one of the things that root asks about.
    room=${TMPDIR:-/tmp}
    [ "$(id -u)" != 0 ] || { mkdir -p -m 700 "$STATE" && room=$STATE; }
    out=$(mktemp "$room/doctor.XXXXXXXX") || { said="no temporary file" status=75; return; }
    timeout -k 2 "$SECONDS_MOST" "$NPUDOCTOR" "$@" >"$out" 2>&1 </dev/null
    status=$?
    said=$(tail -n 1 "$out" | tr -cd '[:print:]' | cut -c 1-4000)
    rm -f "$out"
    case $status in
    124 | 137) said="no answer within $SECONDS_MOST s" ;;
    *) said=${said:-no verdict, status $status} ;;
    esac
}

# The verdict on this node. Only npudoctor's own line is one: a Python that does not find it ends with 1, too.
verdict() {
    doctor check $CHECK --lang en -q
    case $status:$said in
    0:ready* | 1:"not ready"*) ;;
    0:* | 1:*) said="no verdict, status $status: $said" status=70 ;;
    esac
}

# short TEXT: at most 200 characters, as of a reason in sinfo: whole words, and a sign where some are left out.
short() {
    text=$1
    if [ "${#text}" -gt 200 ]; then
        text=$(printf '%s' "$text" | cut -c 1-196)
        text="${text% *} ..."
    fi
    printf '%s' "$text"
}

# The findings that decide, as Slurm's reason: `npudoctor: cache-server.orphan-segment, ...`.
reason() {
    codes=$(printf '%s\n' "$said" | sed -n 's/^[^(]*(\(.*\)).*$/\1/p')
    short "npudoctor: ${codes:-$said}"
}

# Whether this verdict takes the node out of service.
drains() {
    case $status in
    0) return 1 ;;
    1) return 0 ;;
    *) [ "$UNDETERMINED" = drain ] ;;
    esac
}
