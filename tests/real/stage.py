"""Puts a machine of the scenarios on a real disk, in namespaces of its own, and asks the real doctor there.

    unshare --mount --net --ipc --propagation private -- /usr/bin/python3 -I stage.py < MACHINE > REPORTS

A root of tmpfs holds the folders of this machine, and in place of /dev, /etc, /home, /root, /tmp and
/usr/local what the machine has. Nothing of it is seen outside, and nothing stays. It is a program of its own:
an ordinary user may be able to read neither the checkout nor the interpreter of the tests.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Asked = subprocess.Popen[bytes]

COVERED = ("dev", "etc", "home", "root", "tmp", "proc", "sys")
NODES = ("null", "zero", "full", "random", "urandom", "tty", "pts")
LIBRARY = "/usr/local/lib/npudoctor"
DOCTOR = f"import sys; sys.path.insert(0, {LIBRARY!r}); from npudoctor.__main__ import main; sys.exit(main())"
PCI = "/sys/bus/pci"
COMMAND = "/usr/local/bin/npudoctor"


def mount(*words: str) -> None:
    """mount(8)."""
    subprocess.run(["/bin/mount", *words], check=True)


def fresh(path: str, mode: str = "755") -> None:
    """An empty file system that belongs to nobody else."""
    os.makedirs(path, exist_ok=True)
    mount("-t", "tmpfs", "-o", f"mode={mode},size=8g", "npudoctor-test", path)


def root_at(stage: str, library: str) -> None:
    """A root with the folders of this machine, and empty ones in place of those that are the machine's."""
    fresh(stage)
    for name in os.listdir("/"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{stage}/{name}")
        elif os.path.isdir(f"/{name}") and name not in COVERED:
            os.mkdir(f"{stage}/{name}")
            mount("--rbind", f"/{name}", f"{stage}/{name}")
    for name in COVERED:
        os.mkdir(f"{stage}/{name}")
    for name in ("proc", "sys"):
        mount("--rbind", f"/{name}", f"{stage}/{name}")
    shutil.copytree("/etc", f"{stage}/etc", symlinks=True, dirs_exist_ok=True)
    fresh(f"{stage}/usr/local")
    os.makedirs(f"{stage}{LIBRARY}")
    mount("--bind", library, f"{stage}{LIBRARY}")
    mount("-o", "remount,bind,ro", f"{stage}{LIBRARY}")
    if os.path.isdir(PCI):
        fresh(f"{stage}{PCI}")
    fresh(f"{stage}/tmp", "1777")
    for name in NODES:
        old, new = f"/dev/{name}", f"{stage}/dev/{name}"
        if os.path.isdir(old):
            os.mkdir(new)
            mount("--rbind", old, new)
        elif os.path.exists(old):
            open(new, "w").close()
            mount("--bind", old, new)
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
    """Interfaces, ways and rules, each line a command."""
    for line in lines:
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
