"""A machine with eight NPUs whose tools are as slow as real ones: this one, with stand-ins.

They are seen in a mount namespace alone. This machine is left as it is, and nothing stays behind.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from benchmarks.npu_answers import FIRMWARE, INSTALL_RECORD, NPUS, VERSION, hccn_conf, hccn_tool, npu_smi
from benchmarks.promise import CannotMeasureError

TOOLS = "/usr/local/Ascend/driver/tools"
NPU_SMI, HCCN_TOOL = f"{TOOLS}/npu-smi", f"{TOOLS}/hccn_tool"
CHAIN = f"{TOOLS}/one-device"
"""Asks hccn_tool the seven questions about one device, one after the other."""

QUESTIONS = ("ip", "link", "net_health", "netdetect", "gateway", "tls", "mtu")
NODES = (*(f"davinci{number}" for number in range(NPUS)), "davinci_manager", "devmm_svm", "hisi_hdc")
PATIENCE = 60
CLONE_NEWNS = 0x00020000

# A new /dev without other accelerators; /usr/local and /etc with what they hold and ours. A node of ours is
# the null device under another name: that can be had also where mknod is not allowed.
STAND = f"""
parts=$1 stage=$1/stage
fresh() {{ mount -t tmpfs -o mode=755 npudoctor-bench "$stage"; }}
fresh
for name in null zero full random urandom tty shm pts {" ".join(NODES)}; do
    old=/dev/$name new=$stage/$name
    case $name in davinci* | devmm_svm | hisi_hdc) old=/dev/null ;; esac
    if [ -d "$old" ]; then mkdir "$new"; elif [ -e "$old" ]; then : >"$new"; else continue; fi
    mount --rbind "$old" "$new"
done
ln -s /proc/self/fd "$stage/fd"
mount --move "$stage" /dev
fresh
for old in /usr/local/* /usr/local/.[!.]*; do
    new=$stage/${{old##*/}}
    if [ "$old" = /usr/local/Ascend ]; then continue
    elif [ -L "$old" ]; then cp -P "$old" "$new"
    elif [ -d "$old" ]; then mkdir "$new"
    elif [ -f "$old" ]; then : >"$new"
    else continue; fi
    [ -L "$old" ] || mount --rbind "$old" "$new"
done
cp -a "$parts/Ascend" "$stage/"
chmod -R go-w "$stage/Ascend"  # root runs no tool that others may write, whatever the umask was
mount --move "$stage" /usr/local
fresh
cp -a /etc/. "$stage/"
cp "$parts"/etc/* "$stage/"
mount --move "$stage" /etc
echo $$
read -r _ || :
"""


class NpuMachine:
    """The namespace, as long as this object's descriptor is open, and what its stand-ins were asked."""

    def __init__(self, scratch: Path) -> None:
        if os.geteuid() != 0:
            raise CannotMeasureError("only root may set up the machine of stand-ins (a mount namespace)")
        self._libc = ctypes.CDLL(None, use_errno=True)
        parts = scratch / "npus"
        self._log = parts / "calls"
        _write_parts(parts, self._log)
        self._space = _stand(parts)

    def enter(self, folder: Path) -> None:
        """Called in a child between fork and exec: from here on it is a process of that machine."""
        if self._libc.setns(self._space, CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.chdir(folder)

    def calls(self) -> tuple[str, ...]:
        """What the tools were asked since the last time, each as "name argument argument"."""
        lines = self._log.read_text().splitlines()
        self._log.write_text("")
        return tuple(lines)


def _write_parts(parts: Path, log: Path) -> None:
    """What is ours, as plain files that are copied into the namespace."""
    (parts / "stage").mkdir(parents=True)
    log.touch()
    _file(parts / "Ascend/driver/version.info", VERSION)
    _file(parts / "Ascend/firmware/version.info", FIRMWARE)
    _file(parts / "Ascend/driver/lib64/driver/libascend_hal.so", "")
    _file(parts / "etc/ascend_install.info", INSTALL_RECORD)
    _file(parts / "etc/hccn.conf", hccn_conf())
    tools = parts / "Ascend/driver/tools"
    _file(tools / "npu-smi", npu_smi(log), 0o755)
    _file(tools / "hccn_tool", hccn_tool(log), 0o755)
    asked = "".join(f"{HCCN_TOOL} -i 0 -{question} -g\n" for question in QUESTIONS)
    _file(tools / Path(CHAIN).name, f"#!/bin/sh -e\n{asked}", 0o755)


def _file(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _stand(parts: Path) -> int:
    """Make the namespace; an open descriptor is all that it needs to go on existing."""
    unshare = ("timeout", str(PATIENCE), "unshare", "--mount", "--propagation", "private")
    argv = [*unshare, "sh", "-euc", STAND, "sh", str(parts)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd="/") as maker:
        pid = maker.stdout.readline().strip() if maker.stdout else ""
        if pid:
            space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        said = maker.communicate()[1].strip().splitlines() or ["no message"]  # and the shell may end
    if pid:
        return space
    raise CannotMeasureError(f"the machine of stand-ins cannot be set up: {said[0]}")
