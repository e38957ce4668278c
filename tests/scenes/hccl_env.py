"""hccl-env: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.network.hccl_env import hccl_env as check
from npudoctor.testing import Asked, Content, ask, device, fake_host

CARD = "/sys/bus/pci/devices/0000:c1:00.0"

VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"HCCL_CONNECT_TIMEOUT": "60", "HCCL_EXEC_TIMEOUT": "soon", "HCCL_RDMA_TC": "133", "HCCL_BUFFSIZE": ""},
    {"HCCL_DETERMINISTIC": "yes", "HCCL_ALGO": "ring", "HCCL_OP_RETRY_ENABLE": "on", "CM_CHIEF_IP": "head"},
    {"HCCL_CONNECT_TIMEOUT": "“600”", "HCCL_ALGO": "level0:NA;level1:best", "HCCL_EVENT_TIMEOUT": "many"},
    {"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"},
    {"HCCL_INTRA_ROCE_ENABLE": "0"},
    {"CM_CHIEF_IP": "192.0.2.1", "RANK_TABLE_FILE": "/t.json"},
    {"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "1800", "HCCL_EVENT_TIMEOUT": "600"},
    {"HCCL_WHITELIST_DISABLE": "0"},
    {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "/none.json"},
    {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "/bad.json"},
    {"HCCL_WHITELIST_FILE": "/bad.json", "HCCL_SOCKET_FAMILY": "AF_INET6"},
    {"HCCL_IF_BASE_PORT": "60000", "HCCL_HOST_SOCKET_PORT_RANGE": "61000-61050"},
    {"HCCL_OP_EXPANSION_MODE": "AIV", "HCCL_DETERMINISTIC": "true", "HCCL_OP_RETRY_ENABLE": "L0:1,L1:1"},
    {"HCCL_ALGO": "level1:AHC;level2:ring", "HCCL_CONNECT_TIME_OUT": "600"},
    {"HCCL_ALGO": "level0:ring"},
    {"HCCL_ALGO": "allreduce=level0:NA;level1:NHR_V1"},
)


def machine(chip: str = "0xd802") -> dict[str, Content]:
    """A machine with one NPU."""
    return {
        "/dev/davinci0": device(),
        f"{CARD}/vendor": "0x19e5\n",
        f"{CARD}/device": f"{chip}\n",
        f"{CARD}/class": "0x120000\n",
        "/bad.json": "no",
    }


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and every reason."""
    for variables in VARIABLES:
        yield ask(check, fake_host(machine(), variables=variables))
    yield ask(check, fake_host(machine("0xd801"), variables={"HCCL_OP_EXPANSION_MODE": "AIV"}))
    yield ask(check, fake_host({"/dev/nvidia0": device()}, variables={"HCCL_BUFFSIZE": "1"}))
    old = "/usr/local/Ascend/ascend-toolkit/latest"
    info = "package_name=Ascend-cann-toolkit\nversion=5.1.0\n"
    files = {
        **machine(),
        f"{old}/runtime/version.info": "Version=1.81\n",
        f"{old}/x86_64-linux/ascend_toolkit_install.info": info,
    }
    yield ask(check, fake_host(files, variables={"WORLD_SIZE": "8"}))
