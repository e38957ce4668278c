"""import-limits: the shell's limits and the mounts let a framework map its libraries."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.checks.python.test_loaded_libraries import machine

from npudoctor import Severity, Status
from npudoctor.checks.python.import_limits import KINDS, import_limits
from npudoctor.facts.system.limits import limit_of
from npudoctor.host import Host, Options
from npudoctor.testing import SITE, Asked, Content, Limit, ask, fake_host

MIB = 1 << 20


def limits(
    space: Optional[int] = None, data: Optional[int] = None, hard: Optional[int] = None, **others: int
) -> dict[str, Limit]:
    """Those of a shell, with soft limits in MiB; None is unlimited. `others`: as they are: stack_size."""
    rows = {"Max data size": data, "Max address space": space}
    granted = {name: Limit(soft and soft * MIB, soft and hard) for name, soft in rows.items()}
    more = {f"Max {name.replace('_', ' ')}": name for name in ("stack_size", "file_size", "processes")}
    return {**granted, **{name: Limit(others.get(key), hard) for name, key in more.items()}}


def shell(granted: dict[str, Limit], options: str = "rw,relatime", **more: Any) -> Asked:
    """torch, in a shell with these limits, on a mount with these options."""
    files: dict[str, Content] = {path: node for path, node in machine().items() if path != "/proc/self"}
    files["/proc/self/mountinfo"] = (
        "22 1 8:1 / / rw,noexec shared:1 - ext4 /dev/sda1 rw\n"
        f"23 22 0:40 / {SITE} {options} shared:2 - ext4 /dev/sdb1 rw\n"
    )
    return ask(import_limits, fake_host(files, limits=granted, **more))


def mindspore(granted: dict[str, Limit], euid: int = 1000) -> Asked:
    """Another framework, as an ordinary user, in a shell with these limits."""
    module = f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so"
    return ask(import_limits, fake_host({"/proc/self/mountinfo": "", module: ""}, euid=euid, limits=granted))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way of putting it, each ending."""
    yield ask(import_limits, fake_host())
    yield shell(limits(50))
    yield shell(limits(data=50, hard=50 * MIB))
    yield shell(limits(3000))
    yield shell(limits(), "rw,noexec")
    yield mindspore(limits(file_size=0))
    yield mindspore(limits(processes=2, hard=2))
    yield shell({})
    image = {f"/image{path}": node for path, node in machine().items()}
    yield ask(import_limits, fake_host(image, root="/image"))


@pytest.mark.parametrize("granted", [limits(), limits(9000), limits(data=9000), limits(9000, 9000)])
def test_quiet_when_well(granted: dict[str, Limit]) -> None:
    asked = shell(granted)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("granted", "code", "severity"),
    [
        (limits(100), "import-limits.address-space", Severity.ERROR),
        (limits(2000), "import-limits.address-space", Severity.WARNING),
        (limits(data=100), "import-limits.data", Severity.ERROR),
        (limits(data=2000), "import-limits.data", Severity.WARNING),
    ],
)
def test_too_small(granted: dict[str, Limit], code: str, severity: Severity) -> None:
    (finding,) = shell(granted).findings
    assert (finding.code, finding.severity) == (code, severity)
    flag = {"address-space": "-Sv", "data": "-Sd"}[code.partition(".")[2]]
    assert finding.fix is not None
    assert finding.fix.commands == (f"ulimit {flag} unlimited",)


def test_a_hard_limit_is_for_others_to_raise() -> None:
    (finding,) = shell(limits(100, hard=100 * MIB)).findings
    assert finding.fix is not None
    assert finding.fix.commands == ()
    (finding,) = shell(limits(100, hard=9000 * MIB)).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("ulimit -Sv 9216000",)


@pytest.mark.parametrize(
    ("granted", "said", "command"),
    [
        (limits(stack_size=280 << 10), "ulimit -s is 280 KiB, which", "ulimit -Ss unlimited"),
        (limits(file_size=0), "ulimit -f is 0, which", "ulimit -Sf unlimited"),
        (limits(processes=3), "ulimit -u is 3, which", "ulimit -Su unlimited"),
    ],
)
def test_so_low_that_an_import_dies(granted: dict[str, Limit], said: str, command: str) -> None:
    (finding,) = mindspore(granted).findings
    assert (finding.code, finding.severity) == ("import-limits.too-low", Severity.ERROR)
    assert said in finding.message and "too low to import mindspore" in finding.message
    assert finding.fix is not None and finding.fix.commands == (command,)
    assert shell(granted).codes == []  # torch lives


@pytest.mark.parametrize(
    "granted", [limits(), limits(stack_size=320 << 10), limits(file_size=4096), limits(processes=5)]
)
def test_low_and_enough(granted: dict[str, Limit]) -> None:
    assert mindspore(granted).codes == []


def test_root_may_have_as_many_processes_as_it_likes() -> None:
    assert mindspore(limits(processes=1), euid=0).codes == []


def test_a_mount_without_exec() -> None:
    (finding,) = shell(limits(), "rw,nosuid,noexec").findings
    assert (finding.code, finding.severity) == ("import-limits.not-executable", Severity.ERROR)
    assert "site-packages is mounted with noexec" in finding.message


def test_cannot_tell_without_the_limits() -> None:
    assert shell({}).status is Status.UNKNOWN


def test_the_kernel_calls_them_so() -> None:
    """A name that is not in the kernel's table could not be told; one that is has a number or no limit."""
    for name, _flag in KINDS.values():
        soft = limit_of(Host(Options()), name).soft
        assert soft is None or soft > 0


def test_what_a_real_program_maps() -> None:
    """No process of it fits into less."""
    library = Host(Options()).libraries.read(sys.executable)
    assert library is not None
    assert 0 < library.writable_bytes <= library.mapped_bytes

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (library.mapped_bytes // 2, library.mapped_bytes // 2))

    if library.mapped_bytes > 2 * MIB:  # else the program is a stub, and the library beside it holds Python
        done = subprocess.run([sys.executable, "-c", ""], preexec_fn=little, capture_output=True, check=False)
        assert done.returncode
