"""A fake machine with TCP sockets, for the tests of hccl-ports."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Optional

from npudoctor.checks.network.hccl_ports import hccl_ports
from npudoctor.host import Options
from npudoctor.testing import Asked, Content, ask, fake_host, link, process_files

ANY = "0.0.0.0"  # noqa: S104
LISTEN, ESTABLISHED, TIME_WAIT = "0A", "01", "06"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
SELF, PARENT, TORCHRUN, OTHER = 900, 800, 700, 4711
USERS = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n"
NPU = "16666"


def row(address: str, port: int, inode: int, uid: int = 1000, state: str = LISTEN) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return (
        f"   0: {''.join(f'{word:08X}' for word in words)}:{port:04X} 00000000:0000 {state} "
        f"00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
    )


def table(*rows: str) -> dict[str, Content]:
    return {
        "/proc/net/tcp": HEAD + "".join(one for one in rows if len(one.split()[1]) < 20),
        "/proc/net/tcp6": HEAD + "".join(one for one in rows if len(one.split()[1]) > 20),
    }


def sockets_of(*inodes: int) -> dict[int, str]:
    return {10 + index: f"socket:[{inode}]" for index, inode in enumerate(inodes)}


def judge(
    *rows: str,
    variables: Optional[Mapping[str, str]] = None,
    files: Optional[Mapping[str, Content]] = None,
    expect: str = "none",
    euid: int = 0,
    addresses: tuple[str, ...] = ("127.0.0.1", "192.0.2.1"),
    env_of: int = 0,
) -> Asked:
    """A machine where OTHER has the sockets with inodes 1 to 49, TORCHRUN, our ancestor, those from 50 on."""
    machine: dict[str, Content] = {
        "/proc/self": link(str(SELF)),
        "/etc/passwd": USERS,
        "/etc/hosts": "192.0.2.9 far\n192.0.2.1 near\n",
        **process_files(1, "systemd", parent=0),
        **process_files(TORCHRUN, "torchrun", uid=1000, descriptors=sockets_of(*range(50, 60))),
        **process_files(PARENT, "bash", parent=TORCHRUN, uid=1000),
        **process_files(SELF, "npudoctor", parent=PARENT, uid=1000),
        **process_files(OTHER, "python3", uid=1000, descriptors=sockets_of(*range(1, 50))),
        **table(*rows),
        **(files or {}),
    }
    return ask(
        hccl_ports,
        fake_host(
            machine,
            variables=variables,
            expect=expect,
            euid=euid,
            addresses=addresses,
            options=Options(env_of=env_of),
        ),
    )


HERE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
BASE = {"HCCL_IF_BASE_PORT": "40000"}
