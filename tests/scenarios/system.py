"""The system of a machine, whatever it trains with: its users, and the files of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Optional

from npudoctor.testing import OUR_PID, Content, Limit, Memory, Node, folder, link, process_files

from . import npu

USER, HOME = 1000, "/home/trainer"
FREE = ("Max data size", "Max address space", "Max stack size", "Max file size", "Max processes")
LIMITS = {**dict.fromkeys(FREE, Limit(None, None)), "Max open files": Limit(1 << 20, 1 << 20)}
MEMORY = Memory(512 << 30, 256 << 30)
SESSION = f"0::/user.slice/user-{USER}.slice/session-3.scope\n"
NOW = 1_800_000_000.0
# The namespaces of the machine itself.
SPACES = {"pid": "pid:[4026531836]", "cgroup": "cgroup:[4026531835]"}


def process(
    pid: int, name: str, cgroup: str = SESSION, *, variables: Optional[Mapping[str, str]] = None, **more: Any
) -> dict[str, Content]:
    """One process, of the trainer unless said otherwise."""
    more.setdefault("argv", (name,))
    more.setdefault("uid", USER)
    environ = "".join(f"{key}={value}\0" for key, value in (variables or {}).items())
    made = process_files(pid, name, **more)
    made[f"/proc/{pid}/cgroup"] = cgroup
    made[f"/proc/{pid}/environ"] = environ
    made[f"/proc/{pid}/ns/pid"] = link(SPACES["pid"])
    return made


@cache
def processes(contained: bool = False) -> Mapping[str, Content]:
    """Those of a node that somebody works on: the system's, a shell, a training under tmux of long ago.

    A container shows its own alone, and other namespaces than the machine's.
    """
    if contained:
        spaces = {f"/proc/self/ns/{kind}": link(f"{kind}:[4026532600]") for kind in SPACES}
        shell = process(1, "bash", "0::/\n", parent=0, exe="/usr/bin/bash")
        return {**spaces, **shell, **process(OUR_PID, "npudoctor", "0::/\n")}
    system = "0::/system.slice/{}.service\n"
    return {
        **{f"/proc/self/ns/{kind}": link(name) for kind, name in SPACES.items()},
        **process(1, "systemd", "0::/init.scope\n", uid=0, parent=0, exe="/usr/lib/systemd/systemd"),
        **process(2, "kthreadd", "0::/\n", uid=0, parent=0, argv=(), exe=""),
        **process(812, "sshd", system.format("sshd"), uid=0, exe="/usr/sbin/sshd"),
        **process(813, "dockerd", system.format("docker"), uid=0, exe="/usr/bin/dockerd"),
        **process(980, "bash", parent=812, exe="/usr/bin/bash"),
        **process(1200, "tmux: server", exe="/usr/bin/tmux", argv=("tmux", "new")),
        **process(1201, "python3", parent=1200, argv=("python3", "watch.py")),
        **process(OUR_PID, "npudoctor", parent=980),
    }


def files() -> dict[str, Content]:
    """The users, their folders, and what the kernel says of mounts and ports."""
    return {
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\ntrainer:x:{USER}:{USER}::{HOME}:/bin/bash\n",
        "/etc/group": f"root:x:0:\ntrainer:x:{USER}:\nHwHiAiUser:x:{npu.GROUP}:trainer\n",
        "/etc/os-release": 'NAME="openEuler"\nPRETTY_NAME="openEuler 22.03 LTS"\n',
        HOME: folder(0o755, USER),
        f"{HOME}/job": folder(0o755, USER),
        f"{HOME}/job/train.py": Node(b"", uid=USER),
        "/root": folder(0o700),
        "/tmp": folder(0o1777),
        "/dev/shm": folder(0o1777),
        "/usr/local/bin": folder(),
        "/usr/bin": folder(),
        "/proc/net/unix": "Num       RefCount Protocol Flags    Type St Inode Path\n",
        "/proc/self/cwd": link(f"{HOME}/job"),
        "/proc/self/mountinfo": "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n",
        "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n",
        "/proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime\n",
        "/proc/sysvipc/msg": "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n",
        "/proc/sysvipc/sem": "key semid perms nsems uid gid cuid cgid otime ctime\n",
        "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "/proc/sys/net/ipv4/ip_local_reserved_ports": "16666,60000-60031\n",
        "/proc/net/tcp": "  sl  local_address rem_address   st\n",
        "/proc/net/tcp6": "  sl  local_address rem_address   st\n",
    }
