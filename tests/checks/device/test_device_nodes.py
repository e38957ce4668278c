"""device-nodes: the nodes are complete, and this user may open them."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.device.device_nodes import device_nodes
from npudoctor.testing import Asked, Content, Node, ask, device, fake_host, folder, unreadable

GROUP = 1001
SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")
GROUPS: dict[str, Content] = {"/etc/group": f"root:x:0:\nHwHiAiUser:x:{GROUP}:bob,carol\n"}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}


def nodes(count: int = 2, gid: int = GROUP, permissions: int = 0o660) -> dict[str, Content]:
    """The device nodes of a node with some NPUs."""
    names = (*(f"davinci{number}" for number in range(count)), *SHARED)
    return {f"/dev/{name}": device(permissions, gid) for name in names}


def told(*parts: Mapping[str, Content], without: str = "", user: str = "alice", **more: Any) -> Asked:
    files = {path: content for part in parts for path, content in part.items() if path != without}
    return ask(device_nodes, fake_host(files, euid=1000, user=user, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    ours = frozenset({GROUP})
    yield told()
    yield told(nodes(), GROUPS)
    yield told(nodes(), GROUPS, user="bob")
    yield told(nodes(), CONTAINER)
    yield told(nodes(permissions=0o600))
    yield told(nodes(), without="/dev/hisi_hdc", groups=ours)
    yield told(nodes(), CONTAINER, without="/dev/hisi_hdc", groups=ours)
    strange: dict[str, Content] = {
        "/dev/hisi_hdc": folder(),
        "/dev/devmm_svm": "",
        "/dev/davinci0": Node(kind=0o140000),
    }
    yield told(nodes(), strange, groups=ours)
    unmapped = {path: Node(kind=0o020000, permissions=0o660, uid=65534) for path in nodes()}
    yield ask(device_nodes, fake_host(unmapped))


OURS = frozenset({GROUP})


@pytest.mark.parametrize(
    "answer",
    [
        ask(device_nodes, fake_host(nodes())),
        told(nodes(), GROUPS, groups=OURS),
        told(nodes(), groups=OURS),
        told(nodes(permissions=0o666)),
        told(nodes(), CONTAINER, groups=OURS),
        told(nodes(), {"/dev/asdrv_svm": device(0o660, GROUP)}, groups=OURS, without="/dev/devmm_svm"),
        told({path.replace("davinci0", "vdavinci100"): node for path, node in nodes(1).items()}, groups=OURS),
    ],
)
def test_quiet(answer: object) -> None:
    assert (answer.status, answer.findings) == (Status.OK, ())  # type: ignore[attr-defined]


def test_what_belongs_to_the_user_is_open_to_him() -> None:
    own = {path: Node(kind=0o020000, permissions=0o600, uid=1000) for path in nodes()}
    assert told(own).codes == []


def test_a_user_without_the_group() -> None:
    answer = told(nodes(), GROUPS)
    (finding,) = answer.findings
    assert (finding.code, finding.severity) == ("device-nodes.no-access", Severity.ERROR)
    assert "HwHiAiUser (1001)" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("usermod -aG HwHiAiUser alice",)
    assert finding.fix.undo == ("gpasswd -d alice HwHiAiUser",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, True)
    assert "crw-rw---- uid=0 gid=1001 /dev/davinci0" in finding.evidence


def test_groups_are_compared_by_number() -> None:
    """In a container the name may be another number, and the number have no name."""
    (finding,) = told(nodes(), {"/etc/group": "HwHiAiUser:x:1000:\n"}, groups=frozenset({1000})).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("usermod -aG 1001 alice",)


def test_a_login_that_is_older_than_the_membership() -> None:
    (finding,) = told(nodes(), GROUPS, user="bob").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("newgrp HwHiAiUser",)
    assert not finding.fix.needs_root


def test_in_a_container_the_group_is_given_from_outside() -> None:
    (finding,) = told(nodes(), GROUPS, CONTAINER).findings
    assert "--group-add 1001" in finding.message
    assert finding.fix is not None and finding.fix.container == ("--group-add", "1001")


def test_only_the_nodes_that_are_closed_are_named() -> None:
    """--install-for-all opens davinciN to everybody."""
    (finding,) = told(nodes(), {"/dev/davinci0": device(0o666), "/dev/davinci1": device(0o666)}).findings
    assert "davinci0" not in finding.message
    assert "/dev/davinci_manager" in finding.message
    (finding,) = told(nodes(permissions=0o600), groups=OURS).findings
    assert finding.fix is not None and finding.fix.commands == ()


@pytest.mark.parametrize("name", ["davinci_manager", "devmm_svm", "hisi_hdc"])
def test_a_node_is_missing(name: str) -> None:
    (finding,) = told(nodes(), groups=OURS, without=f"/dev/{name}").findings
    assert (finding.code, finding.severity) == ("device-nodes.missing", Severity.ERROR)
    assert f"/dev/{name}" in finding.message
    (finding,) = told(nodes(), CONTAINER, groups=OURS, without=f"/dev/{name}").findings
    assert finding.fix is not None and finding.fix.title.endswith(f" add --device /dev/{name}")
    assert finding.fix.container == ("--device", f"/dev/{name}")


@pytest.mark.parametrize(("content", "what"), [(folder(), "a folder"), ("", "a plain file")])
def test_something_else_has_the_name(content: Content, what: str) -> None:
    """docker run -v makes a folder of what the host does not have."""
    (finding,) = told(nodes(), {"/dev/hisi_hdc": content}, groups=OURS).findings
    assert (finding.code, finding.device) == ("device-nodes.not-a-device", "/dev/hisi_hdc")
    assert what in finding.message


def test_skipped() -> None:
    assert told().status is Status.SKIPPED
    assert told({"/dev/davinci_manager": device()}).status is Status.SKIPPED
    assert told(nodes(), root="/srv/image").reason == "an image is not running"


def test_cannot_tell() -> None:
    assert told({"/dev": unreadable(errno.EACCES)}).status is Status.UNKNOWN
    unmapped = {path: Node(kind=0o020000, permissions=0o660, uid=65534) for path in nodes()}
    answer = ask(device_nodes, fake_host(unmapped))
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, True)


SETUP = """
set -e
mount -t tmpfs -o mode=755 none /dev
for name in davinci0 davinci_manager devmm_svm hisi_hdc null urandom; do mknod -m 660 /dev/$name c 1 3; done
chmod 666 /dev/null; chown :4242 /dev/d* /dev/hisi_hdc
"$1" -c 'import os, struct, sys
if sys.argv[1:]:
    lines = (1, 6, -1), (2, 6, int(sys.argv[1])), (4, 6, -1), (16, 6, -1), (32, 0, -1)
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *line) for line in lines)
    for name in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"):
        os.setxattr(f"/dev/{name}", "system.posix_acl_access", acl)
' $3
exec "$1" -c '
import json, os, sys
from npudoctor import Host
from npudoctor.checks.device.device_nodes import device_nodes
from npudoctor.checks.device import _node_access
from npudoctor.testing import ask
import npudoctor.fixing.steps.steps, npudoctor.host.system, npudoctor.host.users.identity, pwd, shlex
import npudoctor.host.fs.blocking
sys.executable = "/usr/bin/python3"  # ours need not be another user'"'"'s to run
os.setgroups([int(gid) for gid in sys.argv[1].split(",")])
os.setresgid(4000, 4000, 4000)
os.setresuid(4000, 4000, 4000)
host = Host()
told = ask(device_nodes, host)
host.close()
print(json.dumps([told.status.value, told.codes]))' "$2"
"""


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("groups", "listed", "codes"),
    [("4000", "", ["device-nodes.no-access"]), ("4000,4242", "", []), ("4000", "4000", [])],
    ids=["without the group", "with the group", "by an access list"],
)
def test_real_nodes_and_a_real_user(
    need: Callable[..., None], lack: Callable[[str], None], groups: str, listed: str, codes: list[str]
) -> None:
    need("unshare", "/usr/bin/python3")
    argv = ["unshare", "-m", "sh", "-c", SETUP, "sh", sys.executable, groups, listed]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0 and "mount" in done.stderr + done.stdout:
        lack(done.stderr)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["problem" if codes else "ok", codes]
