"""The system of a machine, whatever it trains with: its users, and the files of its kernel."""

from __future__ import annotations

from npudoctor.testing import Content, Node, folder, link

from . import npu

USER, HOME = 1000, "/home/trainer"
LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n"


def files() -> dict[str, Content]:
    """The users, their folders, and what the kernel says of memory, mounts and ports."""
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
        "/proc/self/cwd": link(f"{HOME}/job"),
        "/proc/self/mountinfo": "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n",
        "/proc/meminfo": f"MemTotal: {1 << 29} kB\nMemFree: {1 << 27} kB\nMemAvailable: {1 << 28} kB\n",
        "/proc/self/limits": f"{LIMITS}Max open files            {1 << 20:<20} {1 << 20:<20} files \n",
        "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n",
        "/proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime\n",
        "/proc/sysvipc/msg": "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n",
        "/proc/sysvipc/sem": "key semid perms nsems uid gid cuid cgid otime ctime\n",
        "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "/proc/sys/net/ipv4/ip_local_reserved_ports": "16666,60000-60031\n",
        "/proc/net/tcp": "  sl  local_address rem_address   st\n",
        "/proc/net/tcp6": "  sl  local_address rem_address   st\n",
    }
