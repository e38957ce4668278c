"""A stand-in for hccn_tool: a real program that prints what real ones do, as slow and as ill as is wished."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Optional

from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.commands import Commands
from npudoctor.host.users.identity import Identity
from npudoctor.testing import Content, MemoryDisk, device, folder

TLS = "dev_id:{n}, tls switch[0](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset)"
WELL = {
    "ip": "ipaddr:198.51.100.1{n}\nnetmask:255.255.255.0",
    "link": "link status: UP",
    "net_health": "net health status: Success",
    "netdetect": "netdetect address: 198.51.100.1",
    "gateway": "default gateway:198.51.100.1, Iface:eth{n}",
    "tls": TLS,
    "mtu": "mtu:4096",
}
SCRIPT = """#!/bin/sh
echo "+ $2 $3" >> {log}
{seconds:+sleep}
f={folder}/$2.${{3#-}}
[ -e "$f" ] || exit 9
trap 'echo "- $2 $3" >> {log}' EXIT
. "$f"
"""


class Tool:
    """A folder with a driver in it, whose hccn_tool answers as told."""

    def __init__(self, tmp: Path, devices: Iterable[int] = range(8), seconds: float = 0.0) -> None:
        self.devices = list(devices)
        self.place = tmp / "Ascend/driver/tools/hccn_tool"
        self.place.parent.mkdir(parents=True)  # tmp is made too
        self.log = tmp / "asked"
        self._answers = tmp / "answers"
        self._answers.mkdir()
        script = SCRIPT.replace("{seconds:+sleep}", f"sleep {seconds}" if seconds else ":")
        self.place.write_text(script.format(log=self.log, folder=self._answers))
        self.place.chmod(0o755)
        for number in self.devices:
            for question, text in WELL.items():
                self.says(number, question, text.format(n=number))

    def says(self, device: int, question: str, text: str, status: int = 0) -> None:
        """From now on it prints this."""
        quoted = text.replace("'", "'\\''")
        lines = f"printf '%s\\n' '{quoted}'\n" if text else ""
        self._write(device, question, f"{lines}exit {status}\n")

    def does(self, device: int, question: str, script: str) -> None:
        """From now on it runs this, in a process of its own below it, which may outlive it."""
        self._write(device, question, f"(\n{script})\n")

    def _write(self, device: int, question: str, script: str) -> None:
        (self._answers / f"{device}.{question}").write_text(script)

    def saved(self) -> str:
        """The addresses that it prints, as the driver's file keeps them."""
        told = {number: (self._answers / f"{number}.ip").read_text() for number in self.devices}
        found = {number: re.search(r"ipaddr: ?([0-9.]+)", text) for number, text in told.items()}
        return "".join(f"address_{number}={match[1]}\n" for number, match in found.items() if match)

    def host(
        self,
        files: Optional[Mapping[str, Content]] = None,
        *,
        timeout: float = 10.0,
        peers: tuple[str, ...] = (),
        euid: int = 0,
        devices: Optional[Iterable[int]] = None,
        as_root: bool = False,
    ) -> Host:
        """A machine in memory with these NPUs, on which the tool is a real program. `as_root`: it is run only
        where nobody else can write it."""
        install = f"Driver_Install_Path_Param={self.place.parents[2]}\n"
        there: dict[str, Content] = {
            "/proc": folder(),
            "/sys": folder(),
            "/etc/ascend_install.info": install,
            str(self.place): self.place.read_text(),
            "/etc/hccn.conf": self.saved(),
            **{f"/dev/davinci{n}": device() for n in (self.devices if devices is None else devices)},
            **(files or {}),
        }
        return Host(
            Options(timeout=timeout, peers=peers),
            disk=MemoryDisk(there),
            variables={},
            identity=Identity(euid, "someone", "/nonexistent"),
            commands=Commands(Files(LocalDisk()), as_root=as_root),
        )

    def asked(self) -> list[str]:
        """The questions that came, each as "device -question"."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line[2:] for line in lines if line.startswith("+")]

    def most_at_once(self) -> int:
        """How many questions were being answered at the same time."""
        now = most = 0
        for line in self.log.read_text().splitlines():
            now += 1 if line.startswith("+") else -1
            most = max(most, now)
        return most
