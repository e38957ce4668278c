"""Puts a machine of the scenarios on a real disk, in namespaces of its own, and asks the real doctor there.

    unshare --mount --net --ipc --propagation private -- /usr/bin/python3 -I stage.py < MACHINE > REPORTS

A root of tmpfs holds the folders of this machine, and in place of /dev, /etc, /home, /root, /tmp and
/usr/local what the machine has. Nothing of it is seen outside, and nothing stays. It is a program of its own:
an ordinary user may be able to read neither the checkout nor the interpreter of the tests.
"""

from __future__ import annotations

import base64
import ctypes
import itertools
import json
import os
import resource
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Asked = subprocess.Popen[bytes]

COVERED = ("dev", "etc", "home", "root", "tmp", "proc", "sys")
NODES = ("null", "zero", "full", "random", "urandom", "tty")
LIBRARY = "/usr/local/lib/npudoctor"
DOCTOR = f"import sys; sys.path.insert(0, {LIBRARY!r}); from npudoctor.__main__ import main; sys.exit(main())"
PCI = "/sys/bus/pci"
COMMAND = "/usr/local/bin/npudoctor"


READ_ONLY, REMOUNT, BIND, RECURSIVE = 1, 1 << 5, 1 << 12, 1 << 14
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def mount(source: str, target: str, flags: int, kind: str = "", options: str = "") -> None:
    """mount(2): two dozen starts of mount(8) would take longer than all else here."""
    words = [word.encode() or None for word in (source, target, kind)]
    if _libc.mount(*words, flags, options.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def fresh(path: str, mode: str = "755") -> None:
    """An empty file system that belongs to nobody else."""
    os.makedirs(path, exist_ok=True)
    mount("npudoctor-test", path, 0, "tmpfs", f"mode={mode},size=8g")


def root_at(stage: str, library: str) -> None:
    """A root with the folders of this machine, and empty ones in place of those that are the machine's."""
    fresh(stage)
    for name in os.listdir("/"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{stage}/{name}")
        elif os.path.isdir(f"/{name}") and name not in COVERED:
            os.mkdir(f"{stage}/{name}")
            mount(f"/{name}", f"{stage}/{name}", BIND | RECURSIVE)
    for name in COVERED:
        os.mkdir(f"{stage}/{name}")
    for name in ("proc", "sys"):
        mount(f"/{name}", f"{stage}/{name}", BIND | RECURSIVE)
    copy = ["/bin/cp", "-R", "-P", "--preserve=mode,timestamps", "/etc/.", f"{stage}/etc"]
    subprocess.run(copy, check=True)
    fresh(f"{stage}/usr/local")
    os.makedirs(f"{stage}{LIBRARY}")
    mount(library, f"{stage}{LIBRARY}", BIND)
    mount("none", f"{stage}{LIBRARY}", REMOUNT | BIND | READ_ONLY)
    if os.path.isdir(PCI):
        fresh(f"{stage}{PCI}")
    fresh(f"{stage}/tmp", "1777")
    for name in NODES:
        open(f"{stage}/dev/{name}", "w").close()
        mount(f"/dev/{name}", f"{stage}/dev/{name}", BIND)
    os.mkdir(f"{stage}/dev/pts")
    mount("devpts", f"{stage}/dev/pts", 0, "devpts", "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", f"{stage}/dev/ptmx")
    os.symlink("/proc/self/fd", f"{stage}/dev/fd")
    fresh(f"{stage}/dev/shm", "1777")


def write(stage: str, files: dict[str, Any]) -> None:
    """The files: parents first, so that what lies in a closed folder is written by its path all the same."""
    for path in sorted(files):
        one, place = files[path], stage + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.lexists(place) and not os.path.isdir(place):
            os.unlink(place)
        if one["target"]:
            os.symlink(one["target"], place)
            continue
        if stat.S_ISDIR(one["kind"]):
            os.makedirs(place, exist_ok=True)
        elif stat.S_ISCHR(one["kind"]):
            os.mknod(place, one["kind"], os.makedev(1, 3))  # the null device under another name
        else:
            with open(place, "wb") as file:
                file.write(base64.b64decode(one["content"]))
        os.chmod(place, one["permissions"])
        os.chown(place, one["uid"], one["gid"])


def _script(text: str) -> dict[str, Any]:
    """A program of root's, as `write` wants it."""
    content = base64.b64encode(text.encode()).decode()
    return {"content": content, "kind": 0, "permissions": 0o755, "uid": 0, "gid": 0, "target": ""}


def network(lines: list[str]) -> None:
    """Interfaces, ways and rules, each line a command; those of ip(8) that follow each other in one start."""
    for tool, group in itertools.groupby(lines, lambda line: line.partition(" ")[0]):
        if tool == "ip":
            batch = "".join(line.partition(" ")[2] + "\n" for line in group)
            subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
        else:
            for line in group:
                subprocess.run(line.split(), check=True)


def start(stage: str, machine: dict[str, Any], user: dict[str, Any]) -> Asked:
    """The doctor, asked by one user."""
    variables = {**machine["variables"], **user["variables"]}
    doctor = ["/usr/bin/python3", "-I", "-c", DOCTOR, "check", "--format", "json", *machine["options"]]
    words = user.get("words") or doctor

    def enter() -> None:
        """Called between fork and exec."""
        os.chroot(stage)
        os.chdir(machine["folder"])
        os.setgroups(user["groups"])
        os.setresgid(user["uid"], user["uid"], user["uid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])

    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=variables, preexec_fn=enter, stdout=pipe, stderr=pipe)


def told(asked: Asked) -> Any:
    """Its report."""
    output, errors = asked.communicate()
    return json.loads(output) if output else sys.exit(f"no report: {errors.decode()}")


def main() -> None:
    """Set the stage; all users ask at the same time."""
    machine = json.load(sys.stdin)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    root_at(machine["stage"], machine["library"])
    write(machine["stage"], machine["files"])
    write(machine["stage"], {COMMAND: _script(f"#!/usr/bin/python3 -I\n{DOCTOR}\n")})
    network(machine["network"])
    asked = [start(machine["stage"], machine, user) for user in machine["users"]]
    json.dump([told(one) for one in asked], sys.stdout)


if __name__ == "__main__":
    main()
