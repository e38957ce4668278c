"""What an installation's own script adds to a shell, found out by running it in a clean one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.trust.trees import is_trusted_way
from npudoctor.environment.diff import LISTS, NAME, EnvironmentDiff
from npudoctor.host import Host
from npudoctor.host.process.commands import FOLDERS, CommandResult
from npudoctor.host.process.examined_variables import BASH, SET_BY_SHELL, parse_environ

SECONDS = 5.0  # for all its runs
# Stands for what the caller's lists have, to see what comes before and what after it: no list may be empty,
# or scripts leave the working directory in it.
MARK = "/npudoctor/nonexistent"
# What no shell can be given, although `set -a` or an export may leave it behind.
READ_ONLY = ("BASHOPTS", "EUID", "PPID", "SHELLOPTS", "UID", "npudoctor_status")
# NUL: no script can print it by echo of a variable.
ASKS = "NPUDOCTOR-ASKS\0"
# Nothing is sourced that was not judged: at the first other file the shell ends, and names it.
SCRIPT = """
npudoctor_known=$1 npudoctor_script=$2; shift 2
exec 3>&1 1>&2
npudoctor_judged() {
    case "$npudoctor_known" in *"
$1
"*) return 0 ;; esac
    printf 'NPUDOCTOR-ASKS\\0%s\\0' "$1" >&3
    exit 79
}
source() {
    local npudoctor_file=$1; shift
    case "$npudoctor_file" in /*) ;; *) npudoctor_file=$PWD/$npudoctor_file ;; esac
    npudoctor_judged "$npudoctor_file"
    builtin source "$npudoctor_file" "$@"
}
.() { source "$@"; }
builtin source "$npudoctor_script" "$@"
npudoctor_status=$?
/usr/bin/env -0 >&3
exit "$npudoctor_status"
"""


def is_trusted(host: Host, path: str) -> bool:
    """Return whether only root and we could have written a script, or a folder that it starts programs from;
    where we are root, only root.
    """
    if host.identity.is_root:
        return host.commands.is_trusted(path)
    return is_trusted_way(host.files, path, (0, host.identity.euid))


def diff_of_script(host: Host, script: str, *words: str) -> Optional[EnvironmentDiff]:
    """What a script sets; None where it may not be run, or does not end well."""
    before = _clean_variables(host)
    trusted_paths = [script]
    if not is_trusted(host, script) or "\n" in script:
        return None
    until = time.monotonic() + min(SECONDS, host.options.timeout)
    # Each round the shell gets one file further.
    while time.monotonic() < until:
        answer = _run(host, trusted_paths, script, words, before, until - time.monotonic())
        if answer.ended != "exited" or not answer.stdout:
            return None
        if not answer.stdout.startswith(ASKS):
            after = parse_environ(answer.stdout.encode("utf-8", "surrogateescape"))
            values, front, back = {}, {}, {}
            for name, value in after.items():
                if name in (*SET_BY_SHELL, *READ_ONLY) or not NAME.match(name) or value == before.get(name):
                    continue
                old = before.get(name) if name in LISTS else None
                if old is not None:  # also where it was replaced: what the caller has there stays
                    # With colons on both sides, so that only whole entries match.
                    head, _old, tail = f":{value}:".partition(f":{old}:")
                    front[name] = [entry for entry in head.split(":") if entry.startswith("/")]
                    back[name] = [entry for entry in tail.split(":") if entry.startswith("/")]
                else:
                    values[name] = value
            return EnvironmentDiff(values, front, back)
        path = answer.stdout[len(ASKS) :].partition("\0")[0]
        if path in trusted_paths or "\n" in path or not is_trusted(host, path):
            return None
        trusted_paths.append(path)
    return None


def _clean_variables(host: Host) -> dict[str, str]:
    """The variables with which scripts are run: no PATH but folders that nobody else can write to."""
    lists = {name: MARK for name in LISTS if name != "PATH"}
    # Scripts start programs by their names: as with the scripts, only what nobody else could have put there.
    folders = [folder for folder in FOLDERS if is_trusted(host, folder)]
    path = host.commands.join_trusted(folders)
    # LC_ALL=C: scripts parse the output of programs.
    return {"PATH": path or "/usr/bin", "HOME": host.identity.home, "LC_ALL": "C", **lists}


def _run(
    host: Host,
    trusted_paths: Sequence[str],
    script: str,
    words: Sequence[str],
    variables: Mapping[str, str],
    seconds: float,
) -> CommandResult:
    listed = "\n" + "".join(f"{path}\n" for path in trusted_paths)
    argv = [BASH, "--noprofile", "--norc", "-c", SCRIPT, "bash", listed, script, *words]
    return host.commands.run(argv, timeout=seconds, variables=variables)
