"""master-address with the real resolver and a real /etc/hosts, in namespaces of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Callable

import pytest

pytestmark = pytest.mark.needs_root

ASK = """
import json, sys
from npudoctor.checks.network.master_address import master_address
from npudoctor.host import Host, Options
from npudoctor.testing import ask
asked = ask(master_address, Host(Options(expect="npu"), variables=json.loads(sys.argv[1])))
print(json.dumps({"status": asked.status.value, "codes": asked.codes, "facts": asked.facts}))
"""
SCENE = """
hostname npu-07
printf '127.0.0.1 localhost\\n127.0.1.1 npu-07\\n10.7.0.9 npu-01\\n' > "$1/hosts"
mount --bind "$1/hosts" /etc/hosts
ip link set lo up
ip link add eth7 type veth peer name eth8
ip link set eth8 up
ip address add 10.7.0.7/24 dev eth7
ip link set eth7 up
shift
exec "$@"
"""


def told(tmp_path: Any, **variables: str) -> dict[str, Any]:
    argv = ["unshare", "--net", "--uts", "--mount", "bash", "-ec", SCENE, "scene", str(tmp_path)]
    argv += [sys.executable, "-c", ASK, json.dumps(variables)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_real_machine(tmp_path: Any, need: Callable[..., None]) -> None:
    need("unshare", "ip", "hostname")
    asked = told(tmp_path, MASTER_ADDR="npu-07", NNODES="2", RANK="0")
    assert (asked["codes"], asked["facts"]) == (["master-address.own-name"], {"MASTER_ADDR": ["127.0.1.1"]})
    assert told(tmp_path, MASTER_ADDR="npu-01", NNODES="2", RANK="8")["status"] == "ok"
    assert told(tmp_path, MASTER_ADDR="npu-01", RANK="0")["codes"] == ["master-address.not-ours"]
    assert told(tmp_path, MASTER_ADDR="10.7.0.7", RANK="0")["status"] == "ok"
    assert told(tmp_path, MASTER_ADDR="10.8.0.7")["codes"] == ["master-address.no-way"]
    assert told(tmp_path, MASTER_ADDR="localhost", NNODES="2")["codes"] == ["master-address.loopback"]
