"""The sick machine while it is made: files, devices, packages, processes and the shell of its job."""

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
from npudoctor.rehearsal.namespaces import Lacking
from npudoctor.rehearsal.tree import bind_device, own_places, show

ENVIRONMENT = "/opt/train"  # the job's Python, a virtual environment of the one that runs us
ASCEND = "/usr/local/Ascend"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
PATH = f"{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:{SYSTEM}"
ADDRESS, PEER = "192.0.2.10", "192.0.2.11"
NAME = "rehearsal"
_DONE, _REASON = b"\0", 1000  # what such a process says; bytes of why it failed
_WAIT = 10.0  # seconds for a program that sets the scene


class Stage:
    """Everything lies in the tree of `tree.build`, and all processes are of our pid namespace."""

    def __init__(self) -> None:
        self.home = "/root" if os.geteuid() == 0 else "/home/trainer"
        self.job = f"{self.home}/job"
        self.variables = {"HOME": self.home, "USER": "root" if os.geteuid() == 0 else "trainer", "PATH": PATH,
                          "LANG": "C.UTF-8", "NPUDOCTOR_LANG": language(), "SHELL": "/bin/sh"}  # fmt: skip
        self.limits: list[tuple[int, int]] = []  # of the shell: a resource and its largest value
        self.folder = self.job
        self.gone = False  # the folder is removed under the shell

    def begin(self) -> None:
        """What every machine has: names, a user, a network, the Python of the job."""
        kernel.name_machine(NAME)
        kernel.switch_on("lo")
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
        os.makedirs(self.packages)
        self.link(f"{ENVIRONMENT}/bin/python3", program)

    @property
    def root(self) -> bool:
        """Whether its user is root."""
        return os.geteuid() == 0

    @property
    def packages(self) -> str:
        """Where the job's packages are."""
        return f"{ENVIRONMENT}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """A file, with the folders on the way."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def program(self, name: str, output: str, status: int = 0) -> None:
        """A program that says this, whatever it is asked."""
        text = f"#!/bin/sh\ncat <<'REHEARSAL'\n{output}\nREHEARSAL\nexit {status}\n"
        self.write(f"{ENVIRONMENT}/bin/{name}", text, 0o755)

    def package(self, name: str, version: str, *requires: str, code: Optional[str] = "") -> None:
        """An installed distribution: metadata as pip leaves it, and a module unless that is None."""
        module = name.replace("-", "_").lower()
        info = f"{self.packages}/{module}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        self.write(f"{info}/METADATA", "\n".join(lines) + "\n")
        self.write(f"{info}/INSTALLER", "pip\n")
        self.write(f"{info}/RECORD", "" if code is None else f"{module}/__init__.py,,\n")
        if code is not None:
            self.write(f"{self.packages}/{module}/__init__.py", code)

    def npus(self, count: int = 2) -> None:
        """Nodes of NPUs, and their cards on the PCI bus. Nothing answers behind them."""
        for number in range(count):
            self._card(number, "0x19e5", "0xd802", "0x120000")
            self.device(f"davinci{number}")
        for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
            self.device(name)
        self.write(
            "/etc/ascend_install.info", f"Driver_Install_Path_Param={ASCEND}\nDriver_Install_Type=full\n"
        )
        self.write(f"{ASCEND}/driver/version.info", "Version=25.5.0\nascendhal_version=7.35.23\n")

    def gpus(self, count: int = 2) -> None:
        """Nodes of GPUs, and their cards on the PCI bus."""
        for number in range(count):
            self._card(number, "0x10de", "0x2330", "0x030200")
            self.device(f"nvidia{number}")
        for name in ("nvidiactl", "nvidia-uvm"):
            self.device(name)

    def device(self, name: str) -> None:
        """A character device below /dev: the node of /dev/null, as no namespace may make one."""
        bind_device("/dev/null", f"/dev/{name}")

    def _card(self, number: int, vendor: str, device: str, kind: str) -> None:
        card = f"/sys/bus/pci/devices/0000:{number + 0x61:02x}:00.0"
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            self.write(f"{card}/{name}", text + "\n")

    def network(self) -> None:
        """An interface with an address that another node could reach, and nobody at its other end."""
        try:
            self.run("ip", "link", "add", "eth0", "type", "dummy")
        except Lacking:
            self.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "switch")
            self.run("ip", "link", "set", "dev", "switch", "up")
        self.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0")
        self.run("ip", "link", "set", "dev", "eth0", "up")

    def remove_device(self, name: str) -> None:
        """Take a node away again."""
        self.unmount(f"/dev/{name}")

    def unmount(self, path: str) -> None:
        """Take away what is mounted there, and its place."""
        kernel.unmount(path)
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)

    def run(self, *argv: str) -> None:
        """A program of this machine, asked to change the sick one; Lacking when it fails."""
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
            raise Lacking(_("{command} failed: {why}", command=" ".join(argv[:3]), why=why))

    def small_file_system(self, path: str, size: str, read_only: bool = False) -> None:
        """Mount memory of this size there. What npudoctor runs from stays where it is: many a clone, or
        what pip installed for a try, lies below /tmp."""
        os.makedirs(path, exist_ok=True)
        flags = kernel.NO_SUID | kernel.NO_DEVICES
        places = {place: os.open(place, os.O_PATH) for place in own_places() if place.startswith(f"{path}/")}
        kernel.mount("small", path, "tmpfs", flags, f"mode=1777,size={size}")
        for place, descriptor in places.items():
            if not os.path.exists(place):
                show(f"/proc/self/fd/{descriptor}", place)
            os.close(descriptor)
        if read_only:
            kernel.mount("small", path, flags=flags | kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY)

    def fill(self, path: str, size: int) -> None:
        """A file that really takes this many bytes."""
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)

    def older(self, path: str, seconds: float) -> None:
        """Make a file look as if nobody had written to it for a while."""
        then = time.time() - seconds
        os.utime(path, (then, then), follow_symlinks=False)

    def stay(self, work: Callable[[], object]) -> int:
        """A process that does this first and stays until the machine is gone; its pid, once that is done."""
        pid, reading = forked.start(lambda writing: _do_and_stay(work, writing))
        with open(reading, "rb", buffering=0) as pipe:
            reason = pipe.read(_REASON)
        if reason != _DONE:
            os.waitpid(pid, 0)
            why = reason.decode("utf-8", "replace")
            raise Lacking(_("a process that sets up the fault failed: {why}", why=why))
        return pid

    def leave_behind(self, work: Callable[[], object]) -> int:
        """What a process that was killed leaves; its pid, which nobody has any more."""
        pid = self.stay(work)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return pid

    def listen(self, *ports: int) -> None:
        """A process that listens on these TCP ports of all addresses."""

        def listening() -> None:
            for port in ports:
                listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                listener.bind(("0.0.0.0", port))  # noqa: S104  (nobody reaches this namespace)
                listener.listen(8)
                _held.append(listener)

        self.stay(listening)


def _do_and_stay(work: Callable[[], object], writing: int) -> None:
    """In the child; never returns."""
    try:
        kernel.name_process("python3")
        work()
        os.write(writing, _DONE)
        os.close(writing)
        while True:
            signal.pause()
    except Exception as error:
        os.write(writing, str(error).encode()[:_REASON] or b"?")
        raise


_held: list[socket.socket] = []
