"""The machine itself: its name, kernel, boot, namespaces, and whether it is a container."""

from __future__ import annotations

import os
import re
import time
from typing import Optional

from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Disk, Files

_CONTAINER_CGROUP = re.compile(r"docker|kubepods|containerd|libpod|lxc|crio", re.IGNORECASE)


class System:
    """Facts of the running kernel and of the distribution under the root."""

    def __init__(self, disk: Disk, files: Files) -> None:
        self._disk = disk
        self._files = files

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
        """The random id of this boot; None where /proc does not say."""
        text = self._text("/proc/sys/kernel/random/boot_id")
        return text.strip() if text else None

    def boot_time(self) -> float:
        """When the machine booted, in seconds since the epoch; CannotTell where /proc does not say.

        From the monotonic clocks, not from btime: btime is cut to seconds and follows clock changes late.
        """
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def distribution(self) -> Optional[str]:
        """The distribution's name and version, as the os-release file under the root says."""
        try:
            path = self._files.real("/etc/os-release") or self._files.real("/usr/lib/os-release")
        except CannotTell:
            return None
        if path is None or self._files.may_block(path):
            return None
        import distro

        release = distro.LinuxDistribution(
            include_lsb=False, include_uname=False, include_oslevel=False,
            os_release_file=self._files.on_disk(path),
        )  # fmt: skip
        return release.name(pretty=True) or None

    def container(self) -> bool:
        """Whether this looks like a container: its marks, or the cgroup of the first process."""
        for mark in ("/.dockerenv", "/run/.containerenv"):
            try:
                self._disk.lstat(mark)
                return True
            except OSError:
                continue
        return bool(_CONTAINER_CGROUP.search(self._text("/proc/1/cgroup") or ""))

    def namespace(self, kind: str, pid: str = "self") -> Optional[str]:
        """The identity of a process's namespace, such as "ipc:[4026531839]"; None when it is hidden."""
        try:
            return self._disk.readlink(f"/proc/{pid}/ns/{kind}")
        except OSError:
            return None

    def _text(self, path: str) -> Optional[str]:
        try:
            return self._disk.read(path, 1 << 16).decode("utf-8", "replace")
        except OSError:
            return None
