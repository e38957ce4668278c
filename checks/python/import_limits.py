"""Do the limits of this shell, and the mounts, let an import of the frameworks map its libraries?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    _,
    check,
)
from npudoctor.core.mounts import Mount, mount_of, parse_mountinfo
from npudoctor.core.sizes import size_text
from npudoctor.facts.job import process as job
from npudoctor.facts.system.limits import limit_of

MIB = 1 << 20
# What an import took at least besides its libraries, in MiB: address space, and of that what is data. Seen on
# x86-64 with one thread, where it still succeeded: torch 2.13.0 (CPU) and 2.5.1, MindSpore 2.7.0 and 2.10.0,
# PaddlePaddle 3.x, TensorFlow 2.x. Each further thread takes more.
OWN = {"torch": (170, 105), "mindspore": (400, 180), "paddle": (170, 125), "tensorflow": (260, 160)}
PLENTY = 4096 * MIB  # more than this beyond the libraries is no subject of an import
# The name in /proc/PID/limits and the flag of ulimit.
KINDS = {
    "address-space": ("Max address space", "-v"),
    "data": ("Max data size", "-d"),
}
# With less an import was seen to die: MindSpore 2.7.0 and Paddle 3.3.1 with 280 KiB of stack, not with 320;
# both where no file may grow; MindSpore with 3 processes and threads of the user and not with 5. torch 2.13.0
# lived with all of these. Of open files Python itself needs as many as an import.
LEAST = {
    "stack": ("Max stack size", "-s", {"mindspore": 281 << 10, "paddle": 281 << 10}),
    "file-size": ("Max file size", "-f", {"mindspore": 1, "paddle": 1}),
    "processes": ("Max processes", "-u", {"mindspore": 4}),
}

# Codes of the trials that follow from such a limit.
TRIED = ("trial-memory.cannot-reserve", "trial-memory.cannot-allocate", "trial-processes.no-threads")


@check(
    "import-limits",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", "tensorflow", "tensorflow-cpu"),
    codes={
        "import-limits.address-space": ERROR,
        "import-limits.data": ERROR,
        "import-limits.not-executable": ERROR,
        "import-limits.too-low": ERROR,
    },
)
def import_limits(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The frameworks' libraries can be mapped into memory.

    ## What it does

    Adds up the address space that the libraries of each installed framework take, by their own headers, and
    the additional memory that an import of it was seen to take, and compares the sum with the limits of this
    shell (with `--env-of PID`, of that process). Also reads the options of the mounts on which the libraries
    are.

    - `import-limits.address-space`: `ulimit -v` is smaller than the import needs; a warning if less than 4
      GiB is left after the import, which a training job soon uses.
    - `import-limits.data`: `ulimit -d` is smaller than the import needs; a warning as for
      `import-limits.address-space`.
    - `import-limits.not-executable`: an extension module is on a mount with `noexec`.
    - `import-limits.too-low`: a limit with which an import was seen to fail: of MindSpore and Paddle a stack
      of 280 KiB (`ulimit -s`) or a file size of 0 (`-f 0`); of MindSpore 3 processes of the user, including
      threads (`-u`), if the user is not root.

    If there is no limit, which is the common case, only the mounts are checked. torch works with all of these
    low limits, and no import needs locked memory.

    ## Why it matters

    `failed to map segment from shared object`, `MemoryError`, `OpenBLAS error: Memory allocation still
    failed`: schedulers and login nodes set such limits, and a CUDA build of PyTorch maps 3 GB before it does
    anything. With `noexec`, common for /home, /tmp and shared scratch, every extension module fails.

    ## Fix safety

    Shown only: a line for the shell that starts the job, if the hard limit allows it. The administrator of a
    mount decides what the mount allows.

    ## References

    - getrlimit(2), RLIMIT_AS and RLIMIT_DATA; mount(8), noexec.
    """
    installed = job.frameworks(host, *OWN)
    if not installed:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    if host.options.root is not None:
        raise Skip(_("an image has no limits and no mounts of its own"))
    limits = {kind: limit_of(host, name) for kind, (name, _flag) in KINDS.items()}
    yield Facts({kind: limit.soft for kind, limit in limits.items()})
    for number, (kind, limit) in enumerate(limits.items()):
        if limit.soft is not None:
            needs = {}
            for framework in installed:
                libraries = [loaded.library for loaded in job.process(host, framework).loaded]
                library_bytes = sum(
                    library.writable_bytes if number else library.mapped_bytes for library in libraries
                )
                needs[framework.name] = library_bytes + OWN[framework.name][number] * MIB
            finding = _judge(kind, limit.soft, limit.hard, needs)
            if finding is not None:
                yield finding
    yield from _find_low_limits(host, installed)
    mounts = parse_mountinfo(
        host.running_files.text(f"/proc/{host.options.env_of or 'self'}/mountinfo") or ""
    )
    reported: set[str] = set()
    for path in (module for package in installed for module in package.modules):
        mount = mount_of(mounts, host.files.real(path) or path)
        # noexec forbids mmap(PROT_EXEC), by which the loader maps the code of a library (mmap(2): EPERM).
        if mount is not None and "noexec" in mount.own and mount.point not in reported:
            reported.add(mount.point)
            yield _report_noexec(path, mount)


def _find_low_limits(host: Host, installed: Sequence[job.Framework]) -> Iterator[Finding]:
    """Yield findings for limits below what an import of these frameworks was seen to need."""
    for kind, (name, flag, least) in LEAST.items():
        # RLIMIT_NPROC is not enforced for root, who has CAP_SYS_RESOURCE (getrlimit(2)).
        if kind != "processes" or not host.identity.is_root:
            limit = limit_of(host, name)
            failing = [
                framework.name for framework in installed if (limit.soft or 0) < least.get(framework.name, 0)
            ]
            if limit.soft is not None and failing:
                soft = limit.soft or 0
                words = {"flag": flag, "soft": size_text(soft) if flag == "-s" else soft}
                yield Finding(
                    "import-limits.too-low",
                    _(
                        "ulimit {flag} is {soft}, which is too low to import {frameworks}",
                        frameworks=", ".join(failing),
                        **words,
                    ),
                    action=Action.CONFIG,
                    fix=_raise_limit_fix(flag, limit.hard)
                    if limit.hard is None or limit.hard > soft
                    else _ask_fix(flag),
                )


def _judge(kind: str, soft: int, hard: Optional[int], needs: dict[str, int]) -> Optional[Finding]:
    name, need = max(needs.items(), key=lambda item: item[1])
    if soft >= need + PLENTY:
        return None
    text = _("a process may map {soft} (ulimit {flag}), and importing {framework} takes at least {need}")
    if kind == "data":
        text = _(
            "a process may have {soft} of data (ulimit {flag}); importing {framework} takes at least {need}"
        )
    flag = KINDS[kind][1]
    words = {"soft": size_text(soft), "need": size_text(need), "flag": flag, "framework": name}
    can_raise = hard is None or hard >= need + PLENTY
    return Finding(
        f"import-limits.{kind}",
        text.format(**words),
        severity=ERROR if soft < need else WARNING,
        action=Action.CONFIG,
        fix=_raise_limit_fix(flag, hard) if can_raise else _ask_fix(flag),
        echo_of=() if soft < need else TRIED,
    )


def _raise_limit_fix(flag: str, hard: Optional[int]) -> Fix:
    # ulimit counts KiB, except for -u, which counts processes.
    value = "unlimited" if hard is None else str(hard if flag == "-u" else hard // 1024)
    return Fix(
        _("raise the limit in the shell that starts the job"),
        steps=(Command(("ulimit", f"-S{flag[1]}", value)),),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _ask_fix(flag: str) -> Fix:
    return Fix(
        _(
            "ask whoever sets the limits of this session to raise ulimit {flag}: the hard limit is too low",
            flag=flag,
        ),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _report_noexec(path: str, mount: Mount) -> Finding:
    return Finding(
        "import-limits.not-executable",
        _("{path} cannot be loaded: {point} is mounted with noexec", path=path, point=mount.point),
        evidence=(f"{mount.point} {mount.kind} {','.join(mount.own)}",),
        action=Action.CONFIG,
        fix=Fix(
            _(
                "ask for {point} to be mounted without noexec, or install on another file system",
                point=mount.point,
            ),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
