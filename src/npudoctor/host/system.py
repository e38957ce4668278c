"""Reads the machine's name, kernel, boot and namespaces, and whether it is a container."""

from __future__ import annotations

import os
import re
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.clock import Clock
from npudoctor.host.fs.files import Disk, Files

# Names that Docker, Kubernetes, containerd, Podman, LXC and CRI-O put into the cgroup of a container.
_CONTAINER_CGROUP = pattern(r"docker|kubepods|containerd|libpod|lxc|crio", re.IGNORECASE)


class System:
    """Facts of the running kernel, and of the distribution below the root."""

    def __init__(self, disk: Disk, files: Files, clock: Optional[Clock] = None) -> None:
        self._disk = disk
        self._files = files
        self._clock = clock or Clock()

    @property
    def name(self) -> str:
        return os.uname().nodename

    @property
    def machine(self) -> str:
        return os.uname().machine

    @property
    def kernel(self) -> str:
        return os.uname().sysname

    @property
    def release(self) -> str:
        return os.uname().release

    def boot_id(self) -> Optional[str]:
        """The random id of this boot; None if /proc cannot be read."""
        text = self._read_text("/proc/sys/kernel/random/boot_id")
        return text.strip() if text else None

    def boot_time(self) -> float:
        """When the machine booted, in seconds since the epoch."""
        return self._clock.boot_time()

    def distribution(self) -> Optional[str]:
        """The distribution's name and version, as the os-release file says; None if it is unknown."""
        try:
            text = self._files.text("/etc/os-release") or self._files.text("/usr/lib/os-release")
        except CannotTell:
            return None
        if text:
            return os_release_name(text)
        if self._files.root != "/" or self._files.may_block("/etc"):
            return None
        # Distributions before 2012 have no os-release; distro knows their files. Loading it takes 20 ms.
        import distro

        return distro.name(pretty=True) or None

    def is_container(self) -> bool:
        """Whether this looks like a container: by a mark of docker or podman, or the cgroup of process 1."""
        # Docker makes the first file in every container, Podman the second.
        for mark in ("/.dockerenv", "/run/.containerenv"):
            try:
                self._disk.lstat(mark)
                return True
            except OSError:
                continue
        return bool(_CONTAINER_CGROUP.search(self._read_text("/proc/1/cgroup") or ""))

    def namespace(self, kind: str, pid: str = "self") -> Optional[str]:
        """The identity of a process's namespace, such as "ipc:[4026531839]"; None if it cannot be read.

        `kind` is a name in /proc/PID/ns: ipc, mnt, net, pid, user, uts.
        """
        try:
            return self._disk.readlink(f"/proc/{pid}/ns/{kind}")
        except OSError:
            return None

    def _read_text(self, path: str) -> Optional[str]:
        try:
            return self._disk.read(path, 1 << 16).decode("utf-8", "replace")
        except OSError:
            return None


def os_release_name(text: str) -> Optional[str]:
    """The PRETTY_NAME, else the NAME, of an os-release file (os-release(5)); None if it has neither."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip()] = value.strip().strip("\"'")
    return values.get("PRETTY_NAME") or values.get("NAME") or None
