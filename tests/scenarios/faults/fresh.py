"""What the faults of the fresh eyes share: where things lie, and how they come to harm."""

from __future__ import annotations

import errno

from tests.scenarios import cann as trees
from tests.scenarios.eras import ERAS
from tests.scenarios.fault import cann, layout
from tests.scenarios.machines import HOME, Machine

from npudoctor.testing import folder, unreadable

TOOLKIT = "/usr/local/Ascend/ascend-toolkit"
NNAL = "/usr/local/Ascend/nnal/atb"
MODERN = layout("latest", "new")
HAL = f"{trees.DRIVER}/lib64/driver/libascend_hal.so"
# Another release of the same layout, as it lies beside this one after an upgrade.
BESIDE = {"6.0.1": "7.0.0", "7.0.0": "6.0.1", "8.0.0": "7.0.0", "8.1.RC1": "7.0.0", "8.3.RC1": "7.0.0"}
RECENT = cann("8.0.0", "8.1.RC1", "8.3.RC1")


def real(machine: Machine) -> str:
    """Where the tree really lies."""
    return f"{TOOLKIT}/{machine.era.cann}" if machine.era.layout == "latest" else machine.top


def beside(machine: Machine) -> str:
    """Install another release beside the one in use, without making it the latest."""
    other = ERAS[BESIDE[machine.era.cann]]
    tree = trees.tree(other, machine.arch)
    place = f"{TOOLKIT}/{other.cann}"
    machine.files.update({path: content for path, content in tree.items() if path.startswith(f"{place}/")})
    return place


def close(machine: Machine, top: str) -> None:
    """Let root alone look into this folder."""
    below = [path for path in machine.files if path.startswith(f"{top}/")]
    for path in below:
        parts = path[len(top) + 1 :].split("/")
        for depth in range(len(parts)):
            machine.files["/".join((top, *parts[: depth + 1]))] = unreadable(errno.EACCES)
    machine.files[top] = folder(0o700)


def edit(machine: Machine, path: str, old: str, new: str) -> None:
    """Change a line of a file."""
    content = machine.files[path]
    assert isinstance(content, str) and old in content, path
    machine.files[path] = content.replace(old, new)


def swap(machine: Machine, old: str, new: str, *names: str) -> None:
    """Write another path into variables."""
    for name in names or tuple(machine.variables):
        if name in machine.variables:
            machine.variables[name] = machine.variables[name].replace(old, new)


def local(machine: Machine) -> str:
    """The user's own site-packages."""
    return f"{HOME}/.local/lib/python{machine.era.minor}/site-packages"
