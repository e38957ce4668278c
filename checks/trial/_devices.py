"""What trial-files says of the kernel's devices, and what makes them usable again."""

from __future__ import annotations

import errno
import stat
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.checks.trial._folders import MINDSPORE, is_installed, writer
from npudoctor.checks.trial._refusals import place_and_mount, refusal
from npudoctor.trial.trials import Attempt

NULL, PROC = "/dev/null", ("/proc/meminfo", "/proc/self")
NUMBERS = {NULL: (1, 3), "/dev/zero": (1, 5), "/dev/urandom": (1, 9)}


def device(host: Host, attempt: Attempt) -> Finding:
    """One that is closed, missing, or not the kernel's."""
    path = str(attempt.facts["path"])
    why = refusal(host, attempt)
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
    fatal = path == NULL and attempt.facts.get("device") is not False
    fatal = fatal or (path == "/dev/urandom" and is_installed(host, "torch"))
    # MindSpore takes no memory where it cannot read how much there is.
    fatal = fatal or (path in PROC and is_installed(host, *MINDSPORE))
    return Finding(
        "trial-files.device-unusable",
        text,
        severity=ERROR if fatal else WARNING,
        evidence=why.evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def _terminal_fix(host: Host, attempt: Attempt) -> Optional[Fix]:
    if attempt.number == errno.ENOSPC:
        title = _("close unused terminals, or raise kernel.pty.max")
        return Fix(title, risk=Risk.MANUAL)
    if attempt.number == errno.EACCES:
        device: Fix = _device_fix(host, attempt, (5, 2))
        return device
    options = "newinstance,ptmxmode=0666,mode=0620"
    steps = (Command(("mount", "-t", "devpts", "-o", options, "devpts", "/dev/pts")),)
    return Fix(_("mount the file system of the pseudo-terminals"), steps=steps, risk=Risk.MANUAL)


def _device_fix(host: Host, attempt: Attempt, numbers: tuple[int, int]) -> Fix:
    """What makes a device of the kernel usable again."""
    path = str(attempt.facts["path"])
    place, mount = place_and_mount(host, path)
    if attempt.number == errno.EPERM:
        title = _("ask whoever starts the container to add --device {path}", path=path)
        return Fix(title, risk=Risk.MANUAL)
    make = Command(("mknod", "-m", "666", path, "c", *map(str, numbers)))
    if place is None or not place.exists:
        return Fix(_("create the device"), steps=(make,), risk=Risk.MANUAL)
    if not stat.S_ISCHR(place.entry.mode) or attempt.facts.get("device") is False:
        title = _("replace it with the device")
        return Fix(title, steps=(Command(("rm", "-f", path)), make), risk=Risk.MANUAL)
    if mount is not None and "nodev" in mount.own:
        steps = (Command(("mount", "-o", "remount,dev", mount.point)),)
        return Fix(_("mount it without nodev"), steps=steps, risk=Risk.MANUAL)
    steps = (Command(("chmod", "666", path)),)
    return Fix(_("let everyone use the device"), steps=steps, risk=Risk.MANUAL)
