"""Shells and mounts that let a framework be imported, or do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.python.import_limits import import_limits
from npudoctor.testing import SITE, Asked, Content, ask, fake_host

from .loaded_libraries import machine

MIB, UNLIMITED = 1 << 20, "unlimited"


def limits(
    space: Optional[int] = None, data: Optional[int] = None, hard: str = UNLIMITED, **others: int
) -> str:
    """/proc/self/limits with soft limits in MiB; None is unlimited. `others`: as they are: stack_size."""
    rows = {"Max data size": data, "Max address space": space}
    lines = ["Limit                     Soft Limit           Hard Limit           Units"]
    for name, value in rows.items():
        soft = UNLIMITED if value is None else str(value * MIB)
        lines.append(f"{name:<26}{soft:<21}{UNLIMITED if value is None else hard:<21}bytes")
    for name in ("stack_size", "file_size", "processes"):
        soft = str(others.get(name, UNLIMITED))
        lines.append(f"{'Max ' + name.replace('_', ' '):<26}{soft:<21}{hard:<21}bytes")
    return "\n".join(lines) + "\n"


def shell(text: str, options: str = "rw,relatime", **more: Any) -> Asked:
    """torch, in a shell with these limits, on a mount with these options."""
    files: dict[str, Content] = {path: node for path, node in machine().items() if path != "/proc/self"}
    files["/proc/self/limits"] = text
    files["/proc/self/mountinfo"] = (
        "22 1 8:1 / / rw,noexec shared:1 - ext4 /dev/sda1 rw\n"
        f"23 22 0:40 / {SITE} {options} shared:2 - ext4 /dev/sdb1 rw\n"
    )
    return ask(import_limits, fake_host(files, **more))


def mindspore(text: str, euid: int = 1000) -> Asked:
    """Another framework, as an ordinary user, in a shell with these limits."""
    module = f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so"
    files: dict[str, Content] = {"/proc/self/limits": text, "/proc/self/mountinfo": "", module: ""}
    return ask(import_limits, fake_host(files, euid=euid))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way of putting it, each ending."""
    yield ask(import_limits, fake_host())
    yield shell(limits(50))
    yield shell(limits(data=50, hard=str(50 * MIB)))
    yield shell(limits(3000))
    yield shell(limits(), "rw,noexec")
    yield mindspore(limits(file_size=0))
    yield mindspore(limits(processes=2, hard="2"))
    yield shell("")
    image = {f"/image{path}": node for path, node in machine().items()}
    yield ask(import_limits, fake_host(image, root="/image"))
