"""Where the limit of open files comes from here, and what raises it there."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor import Command, Fix, Host, Risk, WriteFile, _
from npudoctor.core.lazy import pattern
from npudoctor.facts.system.pam_limits import FOLDER, PamLimit, logins_read_them, pam_limit, sources
from npudoctor.host.process.users import groups_of, user_names

ENOUGH, RECOMMENDED = 65536, 512000
LIMITS = f"{FOLDER}/90-npudoctor.conf"
NR_OPEN = "/proc/sys/fs/nr_open"

_SERVICE = pattern(r"/([^/\n]+\.service)(?:/[^\n]*)?$", re.M)
# Services whose children are logins, or get their limits as logins do.
_LOGINS = pattern(r"(sshd?(@.*)?|crond?|(console-|serial-)?getty(@.*)?|user@\d+)\.service")


def coming(host: Host) -> Optional[PamLimit]:
    """What the next login of the examined user gets; None where no login gives this process its limit."""
    if host.system.container() or _slurm(host) or _service(host):
        return None
    files = host.running_files
    return pam_limit(sources(files), "nofile", *_user(host)) if logins_read_them(files) else None


def raised(host: Host) -> Fix:
    """What raises the hard limit, which only root may, for sessions to come."""
    number, unit = RECOMMENDED, _service(host)
    if host.system.container():
        title = _("ask whoever starts the container to add --ulimit nofile={number}:{number}")
        return Fix(title.format(number=number), risk=Risk.MANUAL, needs_root=False)
    if _slurm(host):
        title = _("a Slurm job has the limit of the shell that submitted it, or slurmd's: raise it there")
        return Fix(title, (Command(("systemctl", "edit", "slurmd.service")),), risk=Risk.MANUAL)
    if unit:
        title = _(
            "services do not read limits.conf: set LimitNOFILE={number} for the service, then restart it"
        )
        step = Command(("systemctl", "edit", unit))
        return Fix(title.format(number=number), (step,), risk=Risk.MANUAL)
    return _for_logins(host)


def _for_logins(host: Host) -> Fix:
    # Few bytes: of 4 MiB and more the kernel refuses to read anything of /proc/sys.
    most = (host.running_files.text(NR_OPEN, 1 << 10) or "").strip()
    number = min(RECOMMENDED, int(most)) if most.isdigit() else 0
    # The star is for everybody but root.
    content = "".join(f"{who} - nofile {number}\n" for who in ("*", "root"))
    why = _obstacle(host, number, content)
    if why:
        return Fix(why, risk=Risk.MANUAL)
    title = _("raise both limits as root, then log in again; a service needs LimitNOFILE instead")
    return Fix(title, (WriteFile.at(host, LIMITS, content),), risk=Risk.CAUTION)


def _obstacle(host: Host, number: int, content: str) -> Optional[str]:
    """Why the file would be of no use, or do harm; None when it helps."""
    files = host.running_files
    folder = files.stat(FOLDER)
    if not logins_read_them(files) or folder is None or not folder.is_dir:
        return _(
            "logins on this machine do not read {path}: raise the limit where the session is opened"
        ).format(path=FOLDER)
    if number < ENOUGH:
        # A session that asks for more than the kernel gives is not opened at all: nobody could log in.
        return _("first raise the kernel's limit: fs.nr_open is too low or unknown")
    user, groups = _user(host)
    then = pam_limit({**sources(files), LIMITS: content}, "nofile", user, groups)
    if (then.soft or 0) < ENOUGH:
        return _("change the setting for {user} in {path}: it overrides a new file").format(
            path=then.path, user=user
        )
    return None


def _user(host: Host) -> tuple[str, frozenset[str]]:
    """The examined user, and the groups that are known of him."""
    files, identity = host.running_files, host.identity
    if not host.options.env_of:
        return identity.user, groups_of(files, identity.user, identity.groups)
    entry = files.stat(f"/proc/{host.options.env_of}")
    uid = entry.uid if entry else identity.euid
    user = user_names(files).get(uid, str(uid))
    return user, groups_of(files, user)


def _slurm(host: Host) -> bool:
    return "SLURM_JOB_ID" in host.variables or "/slurm" in _groups(host)


def _service(host: Host) -> Optional[str]:
    """The unit of a service that the process runs in; None for a login."""
    found = _SERVICE.search(_groups(host))
    return None if found is None or _LOGINS.fullmatch(found[1]) else found[1]


def _groups(host: Host) -> str:
    return host.running_files.text(f"/proc/{host.options.env_of or 'self'}/cgroup") or ""
