"""Real machines of their own: sick, fixed by the command, well, undone by the command, and sick again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Callable

import pytest
from tests.support import bare
from tests.support.bare import Line

Need = Callable[..., None]
CHECK = "npudoctor check {id} --format json"
FIX = "npudoctor fix {code} --yes --risk caution --format json"
UNDO = "npudoctor undo --yes --format json"
RANGE = "sysctl -qw net.ipv4.ip_local_port_range='32768 60999'"
HISTORY = "npudoctor history --format json"


def may_raise_limits() -> bool:
    """Whether root has CAP_SYS_RESOURCE, which some containers take from it: then no login gets more."""
    status = Path("/proc/self/status").read_text()
    (row,) = [line for line in status.splitlines() if line.startswith("CapEff:")]
    return bool(int(row.split()[1], 16) >> 24 & 1)


def circle(
    tmp_path: Path, code: str, before: str = "true", first: str = "", look: str = "true", **variables: str
) -> list[Line]:
    """Set up; then check, fix, check, undo, check, look at each state; and the history at the end."""
    names = {"id": code.partition(".")[0], "code": code}
    ask, mend = (first + line.format(**names) for line in (CHECK, FIX))
    lines = [before, ask, look, mend, ask, look, UNDO, ask, look, HISTORY]
    setup, *told = bare.run(tmp_path, lines, variables)
    assert setup.status == 0, setup.err
    sick, _look, fixed, well, _look, undone, again, _look, history = told
    assert code in sick.codes, sick
    assert (fixed.status, fixed.json["changed"], fixed.json["failed"]) == (0, True, False), fixed
    assert all(action["undoable"] for action in fixed.json["actions"])
    assert code not in well.codes
    assert (undone.status, undone.json["changed"], undone.json["msg"]) == (0, True, "1 applied"), undone
    assert code in again.codes
    assert sick.codes == again.codes
    undoing, run = history.json["runs"]
    assert (undoing["undoes"], run["run"], run["undone_by"]) == (
        run["run"],
        fixed.json["run"],
        [undoing["run"]],
    )
    return told


@pytest.mark.needs_root
def test_the_limit_of_open_files_from_the_next_login_on(tmp_path: Path, need: Need) -> None:
    """Who logs in by PAM, as su does here, gets what was written where root may raise limits at all."""
    need("unshare", "su")
    stack = (
        "auth sufficient pam_rootok.so\naccount sufficient pam_permit.so\nsession required pam_limits.so\n"
    )
    before = f"printf '{stack}' | tee /etc/pam.d/sshd > /etc/pam.d/su"
    users = "for user in nobody root; do su $user -s /bin/sh -c 'ulimit -n; ulimit -Hn'; done"
    told = circle(
        tmp_path, "file-limits.low", before, first="ulimit -n 1024; ", look=f"ulimit -n 1024; {users}"
    )
    sick, looked, _fixed, well, after, _undone, _again, back, _history = told
    assert well.codes == ["file-limits.next-login"]
    assert looked.out.split() == back.out.split() == ["1024"] * 4, looked
    assert after.out.split() == (["512000"] if may_raise_limits() else ["1024"]) * 4, after
    assert sick.codes == ["file-limits.low"]


@pytest.mark.needs_root
def test_a_shared_memory_that_is_too_small(tmp_path: Path, need: Need) -> None:
    need("unshare", "mount", "findmnt")
    before = "mount -t tmpfs -o nosuid,nodev,mode=1777,size=64m tmpfs /dev/shm && echo data > /dev/shm/kept"
    look = "findmnt -bno OPTIONS,SIZE /dev/shm; cat /dev/shm/kept"
    _sick, looked, _fixed, _well, after, _undone, _again, back, _history = circle(
        tmp_path, "shm-size.small", before, look=look
    )
    assert looked.out == back.out
    assert "67108864" in looked.out
    assert "67108864" not in after.out
    assert "nosuid,nodev" in after.out and "data" in after.out


@pytest.mark.needs_root
def test_a_shared_memory_that_is_too_full_to_be_small_again(tmp_path: Path, need: Need) -> None:
    need("unshare", "mount", "fallocate")
    lines = [
        "mount -t tmpfs -o size=64m tmpfs /dev/shm", FIX.format(code="shm-size.small"),
        "fallocate -l 80m /dev/shm/data", UNDO, "rm /dev/shm/data", UNDO, UNDO,
    ]  # fmt: skip
    _mounted, fixed, filled, undone, _removed, again, nothing = bare.run(tmp_path, lines)
    assert (fixed.status, filled.status) == (0, 0), fixed
    assert (undone.status, undone.json["actions"][0]["status"]) == (1, "failed")
    assert "mount exited with status" in undone.json["actions"][0]["reason"]
    assert (again.status, again.json["msg"]) == (0, "1 applied")
    assert (nothing.status, nothing.json["msg"], nothing.json["changed"]) == (0, "nothing to undo", False)


@pytest.mark.needs_root
def test_a_size_that_another_gave_since_stays(tmp_path: Path, need: Need) -> None:
    need("unshare", "mount")
    lines = [
        "mount -t tmpfs -o size=64m tmpfs /dev/shm", FIX.format(code="shm-size.small"),
        "mount -o remount,size=3g /dev/shm", UNDO, "stat -fc '%b %S' /dev/shm",
        "mount -o remount,size=64m /dev/shm", UNDO, UNDO,
    ]  # fmt: skip
    _mounted, fixed, _other, undone, size, _back, already, nothing = bare.run(tmp_path, lines)
    (action,) = undone.json["actions"]
    assert (fixed.status, undone.status, action["status"]) == (0, 1, "refused"), action
    assert "/dev/shm has changed since" in action["reason"]
    blocks, each = map(int, size.out.split())
    assert blocks * each == 3 << 30
    assert (already.status, already.json["changed"], already.json["msg"]) == (0, False, "1 already done")
    assert nothing.json["msg"] == "nothing to undo"


@pytest.mark.needs_root
@pytest.mark.parametrize("reserved", ["", "8080,9000-9003"])
def test_ports_that_any_connection_may_take(tmp_path: Path, need: Need, reserved: str) -> None:
    need("unshare", "sysctl")
    before = (
        f"sysctl -qw net.ipv4.ip_local_port_range='32768 60999' net.ipv4.ip_local_reserved_ports={reserved}"
    )
    look = "cat /proc/sys/net/ipv4/ip_local_reserved_ports /etc/sysctl.d/*"
    _sick, looked, _fixed, _well, after, _undone, _again, back, _history = circle(
        tmp_path, "hccl-ports.ephemeral", before, look=look, HCCL_IF_BASE_PORT="40000"
    )
    both = ",".join(filter(None, (reserved, "40000-40031")))
    assert looked.out.split() == back.out.split() == ([reserved] if reserved else [])
    assert after.out.split() == [both, f"net.ipv4.ip_local_reserved_ports={both}"]


@pytest.mark.needs_root
def test_ports_that_another_reserved_since_stay_reserved(tmp_path: Path, need: Need) -> None:
    need("unshare", "sysctl")
    lines = [
        RANGE, FIX.format(code="hccl-ports.ephemeral"),
        "sysctl -qw net.ipv4.ip_local_reserved_ports=9000,40000-40031", UNDO,
        "cat /proc/sys/net/ipv4/ip_local_reserved_ports; ls /etc/sysctl.d",
    ]  # fmt: skip
    *_before, undone, now = bare.run(tmp_path, lines, {"HCCL_IF_BASE_PORT": "40000"})
    (action,) = undone.json["actions"]
    assert (undone.status, action["status"]) == (1, "refused"), action
    assert "ip_local_reserved_ports has changed since" in action["reason"]
    assert now.out.split() == ["9000,40000-40031", "90-npudoctor-ports.conf"]  # nor is it undone by half


@pytest.mark.needs_root
def test_a_fix_that_was_killed_midway_is_finished_by_the_next(tmp_path: Path, need: Need) -> None:
    """What ends the finding comes last: else the next run would see nothing to do, and the next boot would
    bring it back."""
    need("unshare", "sysctl", "timeout")
    kill = (
        "import os, sys; import npudoctor.fixing.steps.kernel as k, npudoctor.fixing.actions.apply as a; "
        "a._ACTS[k.SetKernel] = lambda *all: os.kill(os.getpid(), 9); "
        "from npudoctor.cli.main import run; "
        "run(['fix', 'hccl-ports.ephemeral', '--yes', '--risk', 'caution'])"
    )
    program = shlex.quote(sys.executable)
    lines = [
        RANGE, f'{program} -c "{kill}"', "cat /etc/sysctl.d/*", CHECK.format(id="hccl-ports"),
        FIX.format(code="hccl-ports.ephemeral"),
        "cat /proc/sys/net/ipv4/ip_local_reserved_ports /etc/sysctl.d/*", UNDO, UNDO, UNDO,
        "cat /proc/sys/net/ipv4/ip_local_reserved_ports; ls /etc/sysctl.d",
    ]  # fmt: skip
    told = bare.run(tmp_path, lines, {"HCCL_IF_BASE_PORT": "40000"})
    _range, killed, midway, sick, fixed, both, *undone, now = told
    assert killed.status in (137, -9)
    assert midway.out.strip() == "net.ipv4.ip_local_reserved_ports=40000-40031"
    assert "hccl-ports.ephemeral" in sick.codes
    assert (fixed.status, fixed.json["changed"]) == (0, True)
    assert both.out.split() == ["40000-40031", "net.ipv4.ip_local_reserved_ports=40000-40031"]
    assert [one.json["msg"] for one in undone[1:]] == ["1 applied", "nothing to undo"], undone
    assert now.out.split() == []


@pytest.mark.needs_root
def test_the_file_for_the_next_boot_is_one_that_sysctl_reads(tmp_path: Path, need: Need) -> None:
    need("unshare", "sysctl")
    lines = [
        RANGE,
        FIX.format(code="hccl-ports.ephemeral"),
        "sysctl -qw net.ipv4.ip_local_reserved_ports= && sysctl -p /etc/sysctl.d/90-npudoctor-ports.conf",
        "cat /proc/sys/net/ipv4/ip_local_reserved_ports",
    ]
    *_before, booted, now = bare.run(tmp_path, lines, {"HCCL_IF_BASE_PORT": "40000"})
    assert (booted.status, now.out.strip()) == (0, "40000-40031"), booted
