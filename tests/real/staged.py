"""A machine of the scenarios as the program stage.py wants it: its files, its tools as scripts, its users."""

from __future__ import annotations

import base64
import functools
import json
import platform
import shutil
import stat
import subprocess
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Optional

from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Content, Node

from ..scenarios import network, npu, python_env  # noqa: TID252
from ..scenarios.eras import ERAS  # noqa: TID252
from ..scenarios.machines import HOME, Machine, healthy  # noqa: TID252
from ..scenarios.system import USER  # noqa: TID252

PYTHON = "/usr/bin/python3"
STAGE = Path(__file__).with_name("stage.py")
UNSHARE = ("unshare", "--mount", "--net", "--ipc", "--propagation", "private", "--")
OURS = ("/usr/local/Ascend", python_env.PREFIX, "/etc/Ascend", HOME, "/sys/bus/pci", "/dev/davinci")
SINGLE = (
    npu.CONF,
    "/etc/ascend_install.info",
    "/etc/passwd",
    "/etc/group",
    "/dev/devmm_svm",
    "/dev/hisi_hdc",
)
NETWORK = [
    "ip link set lo up",
    "ip link add eth0 type veth peer name far",
    "ip link set far up",
    f"ip address add {network.OURS}/24 dev eth0",
    "ip link set eth0 up",
    "ip route add default dev eth0",
]
PATIENCE = 300.0


@functools.cache
def system_python() -> str:
    """The minor version of the system's Python, which every user may start; "" where there is none."""
    if not Path(PYTHON).exists():
        return ""
    told = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([PYTHON, "-I", "-c", told], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def on_this_machine(framework: str) -> Optional[Machine]:
    """A healthy machine of the newest era that goes with the system's Python; None when none does."""
    minor = system_python()
    fitting = [version for version, era in ERAS.items() if era.minor == minor and era.layout != "old"]
    return healthy(fitting[-1], platform.machine(), framework) if fitting else None


def library(place: Path) -> Path:
    """npudoctor and what it needs, for all to read."""
    for name in ("npudoctor", "npudoctor.checks"):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, place.joinpath(*name.split(".")), dirs_exist_ok=True)
    _with_needs("npudoctor", place)
    # Once here: else each of a hundred processes compiles all of it, as users may not write there. What was
    # compiled by the same release of Python came along with its times, and holds.
    subprocess.run([PYTHON, "-I", "-m", "compileall", "-q", place], check=False, stdout=subprocess.DEVNULL)
    place.chmod(0o755)
    return place


def _with_needs(name: str, place: Path) -> None:
    found = metadata.distribution(name)
    # Of ours a checkout's list has all that is in the tree: 70 MB.
    for file in () if name == "npudoctor" else found.files or ():
        if ".." not in file.parts and not file.name.endswith(".pth"):
            real, copy = Path(str(found.locate_file(file))), place / file
            if real.is_file() and not copy.exists() and "__editable__" not in file.name:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(real, copy)
    for line in found.requires or ():
        needed = line.partition(";")[0].strip()
        word = needed[: next((at for at, letter in enumerate(needed) if letter in "<>=!~ (["), len(needed))]
        if "extra ==" not in line and not (place / f".{word}").exists():
            (place / f".{word}").touch()
            try:
                _with_needs(word, place)
            except metadata.PackageNotFoundError:
                continue  # of another system or Python


def reports(machine: Machine, place: Path, library: Path, rules: str = "") -> list[dict[str, Any]]:
    """What the real doctor says of it to root and to the machine's user."""
    return asked(machine, place, library, [ROOT, _trainer(machine)], rules)


def through_shells(
    machine: Machine, place: Path, library: Path, lines: Sequence[Sequence[str]], root: bool = False
) -> list[dict[str, Any]]:
    """What shells of the machine's user, or of root, print: each is a command with its words, and prints
    JSON. All have the variables of the machine, and none has more."""
    user = ROOT if root else _trainer(machine)
    return asked(machine, place, library, [{**user, "words": list(words)} for words in lines])


def asked(
    machine: Machine, place: Path, library: Path, users: Sequence[dict[str, Any]], rules: str = ""
) -> list[dict[str, Any]]:
    """What each user's program prints on the machine's stage."""
    stage = place / "stage"
    stage.mkdir()
    peers = [word for peer in machine.peers for word in ("--peers", peer)]
    told = {
        "stage": str(stage),
        "library": str(library),
        "files": {path: _plain(content) for path, content in _files(machine).items()},
        "variables": {**machine.variables, "NPUDOCTOR_CHECKS_DIR": ""},
        "options": ["--expect", machine.expect, *peers],
        "network": [*NETWORK, *rules.splitlines()],
        "folder": f"{HOME}/job",
        "users": list(users),
    }
    argv = [*UNSHARE, PYTHON, "-I", str(STAGE)]
    done = subprocess.run(
        argv, input=json.dumps(told), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return list(json.loads(done.stdout))


ROOT: dict[str, Any] = {"uid": 0, "groups": [0], "variables": {"HOME": "/root", "USER": "root"}}


def _trainer(machine: Machine) -> dict[str, Any]:
    variables = {"HOME": HOME, "USER": "trainer"}
    return {"uid": USER, "groups": sorted(machine.groups), "variables": variables}


def _files(machine: Machine) -> dict[str, Content]:
    files = {
        path: content for path, content in machine.files.items() if path.startswith(OURS) or path in SINGLE
    }
    minor = machine.era.minor
    # The interpreter is the system's, in an environment of the machine's folder.
    for path in [path for path in files if path.startswith(f"{python_env.PREFIX}/")]:
        if f"{path}/".startswith((f"{machine.site}/", f"{python_env.PREFIX}/include/")):
            continue
        del files[path]
    files[f"{python_env.PREFIX}/pyvenv.cfg"] = f"home = /usr/bin\nversion = {minor}\n"
    files[f"{python_env.PREFIX}/bin/python{minor}"] = Node(
        kind=stat.S_IFLNK, target=f"/usr/bin/python{minor}"
    )
    files[f"{python_env.PREFIX}/bin/python3"] = Node(kind=stat.S_IFLNK, target=f"python{minor}")
    files.update(_tools(machine))
    return files


def _tools(machine: Machine) -> dict[str, Content]:
    """npu-smi and hccn_tool, as scripts that print what the machine's answer."""
    files: dict[str, Content] = {}
    if machine.npu_smi is not None:
        files["/usr/local/bin/npu-smi"] = _script(f'[ "$*" = info ] || exit 1\n{_printing(machine.npu_smi)}')
    cases = "".join(
        f'"{" ".join(argv[1:])}")\n{_printing(answer)};;\n'
        for argv, answer in machine.commands.items()
        if argv[0] == npu.TOOL
    )
    if cases:
        files[npu.TOOL] = _script(f'case "$*" in\n{cases}*) exit 1 ;;\nesac\n')
    return files


def _printing(answer: Any) -> str:
    text, status = (answer.stdout, answer.status) if isinstance(answer, CommandResult) else (answer, 0)
    quoted = text.replace("'", "'\\''")
    return f"printf '%s' '{quoted}'\nexit {status}\n" if status else f"printf '%s' '{quoted}'\n"


def _script(text: str) -> Node:
    return Node(f"#!/bin/sh\n{text}".encode(), permissions=0o755)


def _plain(content: Content) -> dict[str, Any]:
    if isinstance(content, str):
        content = Node(content.encode("utf-8", "surrogateescape"))
    elif isinstance(content, bytes):
        content = Node(content)
    kind = stat.S_IFREG if not content.kind else content.kind
    return {
        "content": base64.b64encode(content.content).decode(),
        "kind": kind,
        "permissions": content.permissions,
        "uid": content.uid,
        "gid": content.gid,
        "target": content.target,
    }
