"""What trial-files says of the kernel's devices, and what makes them usable again."""

from __future__ import annotations

import errno
import stat
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.checks.trial._folders import MINDSPORE, is_installed, writer
from npudoctor.checks.trial._refusals import explain_refusal, place_and_mount
from npudoctor.trial.trials import Attempt

# A /proc that is mounted only in part, or whose lxcfs has died, lacks one of them.
NULL, PROC = "/dev/null", ("/proc/meminfo", "/proc/self")
# Documentation/admin-guide/devices.txt of the kernel; 5:2 below is /dev/ptmx.
NUMBERS = {NULL: (1, 3), "/dev/zero": (1, 5), "/dev/urandom": (1, 9)}


def report_device(host: Host, attempt: Attempt) -> Finding:
    """Report a device that cannot be opened, is missing, or is not the kernel's device."""
    path = str(attempt.facts["path"])
    why = explain_refusal(host, attempt)
    if attempt.facts["step"] == "terminal":
        text, fix = _("no pseudo-terminal can be opened: {why}", why=why.why), _terminal_fix(host, attempt)
    elif attempt.facts["step"] == "proc":
        text = _("{user} cannot read {path}: {why}", user=writer(host), path=path, why=why.why)
        fix = Fix(_("mount all of /proc; if lxcfs has died, restart the container"), risk=Risk.MANUAL)
    else:
        fix = _device_fix(host, attempt, NUMBERS[path])
        text = _("{user} cannot open {path}: {why}", user=writer(host), path=path, why=why.why)
        if attempt.facts.get("device") is False:
            text = _("{path} is not the kernel's device: data written to it stays there", path=path)
    # "Unable to open /dev/urandom", or to read it, is torch's word when it seeds a generator.
    # msrun opens /dev/null, and so does what starts most jobs: `>/dev/null` in a script, subprocess.DEVNULL.
    is_fatal = path == NULL and attempt.facts.get("device") is not False
    is_fatal = is_fatal or (path == "/dev/urandom" and is_installed(host, "torch"))
    # MindSpore's memory pool reads /proc/meminfo and fails without it.
    is_fatal = is_fatal or (path in PROC and is_installed(host, *MINDSPORE))
    return Finding(
        "trial-files.device-unusable",
        text,
        severity=ERROR if is_fatal else WARNING,
        evidence=why.evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def _terminal_fix(host: Host, attempt: Attempt) -> Optional[Fix]:
    # The limit kernel.pty.max is reached (pts(4)).
    if attempt.number == errno.ENOSPC:
        title = _("close unused terminals, or raise kernel.pty.max")
        return Fix(title, risk=Risk.MANUAL)
    if attempt.number == errno.EACCES:
        device_fix: Fix = _device_fix(host, attempt, (5, 2))
        return device_fix
    # Without ptmxmode the ptmx of a devpts has mode 0000 (Documentation/filesystems/devpts.rst).
    options = "newinstance,ptmxmode=0666,mode=0620"
    steps = (Command(("mount", "-t", "devpts", "-o", options, "devpts", "/dev/pts")),)
    return Fix(_("mount the file system of the pseudo-terminals"), steps=steps, risk=Risk.MANUAL)


def _device_fix(host: Host, attempt: Attempt, numbers: tuple[int, int]) -> Fix:
    """Return the fix that makes a device of the kernel usable again. `numbers`: major and minor."""
    path = str(attempt.facts["path"])
    place, mount = place_and_mount(host, path)
    # The device controller of a control group refuses open(2) with EPERM, whatever the mode says.
    if attempt.number == errno.EPERM:
        title = _("ask whoever starts the container to add --device {path}", path=path)
        return Fix(title, risk=Risk.MANUAL)
    make = Command(("mknod", "-m", "666", path, "c", *map(str, numbers)))
    if place is None or not place.exists:
        return Fix(_("create the device"), steps=(make,), risk=Risk.MANUAL)
    if not stat.S_ISCHR(place.entry.mode) or attempt.facts.get("device") is False:
        title = _("replace it with the device")
        return Fix(title, steps=(Command(("rm", "-f", path)), make), risk=Risk.MANUAL)
    # On a mount with nodev the kernel does not interpret device nodes (mount(8)).
    if mount is not None and "nodev" in mount.own:
        steps = (Command(("mount", "-o", "remount,dev", mount.point)),)
        return Fix(_("mount it without nodev"), steps=steps, risk=Risk.MANUAL)
    steps = (Command(("chmod", "666", path)),)
    return Fix(_("let everyone use the device"), steps=steps, risk=Risk.MANUAL)
