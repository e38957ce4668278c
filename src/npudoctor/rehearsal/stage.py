"""Builds the faulty machine: files, devices, packages, processes and the shell of its job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Callable, Optional

from npudoctor.core import forked
from npudoctor.core.messages import _, language
from npudoctor.rehearsal import kernel
from npudoctor.rehearsal.namespaces import CannotRehearse
from npudoctor.rehearsal.tree import bind_device, find_own_places, show_read_only

ENVIRONMENT = "/opt/train"  # the job's Python: a virtual environment of the one that runs npudoctor
ASCEND = "/usr/local/Ascend"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
PATH = f"{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:{SYSTEM}"
ADDRESS, PEER = "192.0.2.10", "192.0.2.11"  # TEST-NET-1 of RFC 5737, which is routed nowhere
NAME = "rehearsal"
_DONE, _REASON = b"\0", 1000  # what a started process writes on success; bytes of its error
_WAIT = 10.0  # seconds for a program that changes the machine


class Stage:
    """The machine under construction: its files are in the tree of `tree.build_tree`, its processes in the
    new pid namespace."""

    def __init__(self) -> None:
        self.home = "/root" if os.geteuid() == 0 else "/home/trainer"
        self.job = f"{self.home}/job"
        self.variables = {"HOME": self.home, "USER": "root" if os.geteuid() == 0 else "trainer", "PATH": PATH,
                          "LANG": "C.UTF-8", "NPUDOCTOR_LANG": language(), "SHELL": "/bin/sh"}  # fmt: skip
        self.limits: list[tuple[int, int]] = []  # of the job's shell: pairs of RLIMIT_* and the soft limit
        self.folder = self.job
        self.is_folder_removed = False  # whether the working directory is removed while the shell is in it

    def begin(self) -> None:
        """Make what every machine has: a host name, a user, a loopback interface, the job's Python."""
        kernel.set_host_name(NAME)
        kernel.switch_interface_on("lo")
        user, group = os.geteuid(), os.getegid()
        users = "root:x:0:0:root:/root:/bin/sh\n"
        groups = "root:x:0:\n"
        if user:
            users += f"trainer:x:{user}:{group}::{self.home}:/bin/sh\n"
            groups += f"trainer:x:{group}:\n" if group else ""
        self.write("/etc/passwd", users)
        self.write("/etc/group", groups)
        self.write(
            "/etc/hosts", f"127.0.0.1 localhost {NAME}\n::1 localhost\n{ADDRESS} node1\n{PEER} node2\n"
        )
        self.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        os.makedirs(self.job)
        os.chdir(self.job)
        program = os.path.realpath(sys.executable)
        self.write(f"{ENVIRONMENT}/pyvenv.cfg", f"home = {os.path.dirname(program)}\n")
        os.makedirs(self.site_packages)
        self.make_link(f"{ENVIRONMENT}/bin/python3", program)

    @property
    def is_root(self) -> bool:
        """Whether its user is root."""
        return os.geteuid() == 0

    @property
    def site_packages(self) -> str:
        """The site-packages directory of the job's Python."""
        return f"{ENVIRONMENT}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file, and make its parent directories."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link at `path`, and its parent directories."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def add_program(self, name: str, output: str, status: int = 0) -> None:
        """Install a program that prints `output` whatever its arguments."""
        text = f"#!/bin/sh\ncat <<'REHEARSAL'\n{output}\nREHEARSAL\nexit {status}\n"
        self.write(f"{ENVIRONMENT}/bin/{name}", text, 0o755)

    def add_package(self, name: str, version: str, *requires: str, code: Optional[str] = "") -> None:
        """Install a distribution: metadata as pip writes it, and a module with `code` unless that is None."""
        module = name.replace("-", "_").lower()
        info = f"{self.site_packages}/{module}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        self.write(f"{info}/METADATA", "\n".join(lines) + "\n")
        self.write(f"{info}/INSTALLER", "pip\n")
        self.write(f"{info}/RECORD", "" if code is None else f"{module}/__init__.py,,\n")
        if code is not None:
            self.write(f"{self.site_packages}/{module}/__init__.py", code)

    def add_npus(self, count: int = 2) -> None:
        """Make device nodes of NPUs, and their cards on the PCI bus. No driver is behind them."""
        for number in range(count):
            # Huawei, Ascend 910B, class "processing accelerator".
            self._add_card(number, "0x19e5", "0xd802", "0x120000")
            self.add_device(f"davinci{number}")
        for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
            self.add_device(name)
        self.write(
            "/etc/ascend_install.info", f"Driver_Install_Path_Param={ASCEND}\nDriver_Install_Type=full\n"
        )
        self.write(f"{ASCEND}/driver/version.info", "Version=25.5.0\nascendhal_version=7.35.23\n")

    def add_gpus(self, count: int = 2) -> None:
        """Make device nodes of GPUs, and their cards on the PCI bus."""
        for number in range(count):
            # NVIDIA, H100, class "3D controller".
            self._add_card(number, "0x10de", "0x2330", "0x030200")
            self.add_device(f"nvidia{number}")
        for name in ("nvidiactl", "nvidia-uvm"):
            self.add_device(name)

    def add_device(self, name: str) -> None:
        """Make a character device in /dev: /dev/null bind-mounted, as mknod is not allowed in a namespace."""
        bind_device("/dev/null", f"/dev/{name}")

    def _add_card(self, number: int, vendor: str, device: str, kind: str) -> None:
        # 0x61: npu-smi's Bus-Id of the first card in `faults.accelerators`, which counts from there, too.
        card = f"/sys/bus/pci/devices/0000:{number + 0x61:02x}:00.0"
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            self.write(f"{card}/{name}", text + "\n")

    def add_network(self) -> None:
        """Make the interface eth0 with an address that another node could reach; nothing is at its other
        end."""
        try:
            self.run("ip", "link", "add", "eth0", "type", "dummy")
        # This kernel has no dummy interfaces.
        except CannotRehearse:
            self.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "switch")
            self.run("ip", "link", "set", "dev", "switch", "up")
        self.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0")
        self.run("ip", "link", "set", "dev", "eth0", "up")

    def remove_device(self, name: str) -> None:
        """Remove a device node of /dev again."""
        self.unmount(f"/dev/{name}")

    def unmount(self, path: str) -> None:
        """Unmount a path, and remove the empty directory or file that is left."""
        kernel.unmount(path)
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)

    def run(self, *argv: str) -> None:
        """Run a program of the real machine to change the faulty one; raises CannotRehearse when it fails."""
        done = subprocess.run(
            argv,
            env={"PATH": SYSTEM},
            capture_output=True,
            text=True,
            check=False,
            timeout=_WAIT,
            preexec_fn=kernel.keep_network_rights,
        )
        if done.returncode:
            why = " ".join(done.stderr.split())[:200]
            raise CannotRehearse(_("{command} failed: {why}", command=" ".join(argv[:3]), why=why))

    def mount_small_file_system(self, path: str, size: str, read_only: bool = False) -> None:
        """Mount a tmpfs of this size on a path; paths that npudoctor itself needs stay visible in it.

        A clone of the repository, or a virtual environment for a trial, is often below /tmp.
        """
        os.makedirs(path, exist_ok=True)
        flags = kernel.NO_SUID | kernel.NO_DEVICES
        places = {
            place: os.open(place, os.O_PATH) for place in find_own_places() if place.startswith(f"{path}/")
        }
        kernel.mount("small", path, "tmpfs", flags, f"mode=1777,size={size}")
        for place, descriptor in places.items():
            if not os.path.exists(place):
                show_read_only(f"/proc/self/fd/{descriptor}", place)
            os.close(descriptor)
        if read_only:
            kernel.mount("small", path, flags=flags | kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY)

    def fill(self, path: str, size: int) -> None:
        """Make a file whose blocks are allocated: `size` bytes."""
        with open(path, "wb") as file:
            # A sparse file would not fill the file system.
            os.posix_fallocate(file.fileno(), 0, size)

    def make_older(self, path: str, seconds: float) -> None:
        """Set the modification time of a file to `seconds` ago."""
        modified_at = time.time() - seconds
        os.utime(path, (modified_at, modified_at), follow_symlinks=False)

    def start_process(self, work: Callable[[], object]) -> int:
        """Start a process that does the work and then stays; returns its pid once the work is done."""
        pid, reading = forked.start(lambda writing: _do_and_pause(work, writing))
        with open(reading, "rb", buffering=0) as pipe:
            reason = pipe.read(_REASON)
        if reason != _DONE:
            os.waitpid(pid, 0)
            why = reason.decode("utf-8", "replace")
            raise CannotRehearse(_("a process that sets up the fault failed: {why}", why=why))
        return pid

    def leave_behind(self, work: Callable[[], object]) -> int:
        """Start a process that does the work, and kill it; returns its pid, which is free again."""
        pid = self.start_process(work)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return pid

    def listen(self, *ports: int) -> None:
        """Start a process that listens on these TCP ports of all addresses."""

        def open_listeners() -> None:
            for port in ports:
                listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                listener.bind(("0.0.0.0", port))  # noqa: S104  (nobody reaches this namespace)
                listener.listen(8)
                _listeners.append(listener)

        self.start_process(open_listeners)


def _do_and_pause(work: Callable[[], object], writing: int) -> None:
    """In the child: do the work, report it, and wait for the end of the namespace. Never returns."""
    try:
        kernel.set_process_name("python3")
        work()
        os.write(writing, _DONE)
        os.close(writing)
        while True:
            signal.pause()
    except Exception as error:
        os.write(writing, str(error).encode()[:_REASON] or b"?")
        raise


_listeners: list[socket.socket] = []
