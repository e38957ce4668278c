"""May memory be given in large pages to those that ask for it, or to all?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Facts, Finding, Host, Scope, Unknown, _, check
from npudoctor.checks.tuning._settings import advise, read_or_empty, read_setting, write_setting
from npudoctor.facts.job.expected_accelerator import npu_here

FOLDER = "/sys/kernel/mm/transparent_hugepage"
# always: for all anonymous memory; madvise: only where a program asks by madvise(2); never (transhuge.rst).
MODES = ("always", "madvise", "never")
USUAL = 2 << 20  # bytes of a large page; those of kernels with 64 KiB pages are of 512 MiB


@check(
    "transparent-hugepages",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"transparent-hugepages.off": INFO, "transparent-hugepages.on-request": INFO},
)
def transparent_hugepages(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Transparent hugepages are allowed.

    ## What it does

    Reads when the kernel gives anonymous memory in pages of 2 MiB instead of 4 KiB. Nothing is said of
    kernels with pages of 64 KiB, whose large pages have 512 MiB.

    - `transparent-hugepages.off`: `never`; even a program that asks for them (NumPy, jemalloc, glibc with
      `glibc.malloc.hugetlb=1`) gets none.
    - `transparent-hugepages.on-request`: `madvise` on a machine with NPUs. Huawei's own check before
      serving (msprechecker) wants `always`.

    ## Why it matters

    Loading a checkpoint and preparing data touch many gigabytes. Small pages cause a page fault for each 4
    KiB, and more misses in the processor's address cache.

    This setting is not right for everyone: vendors of databases and of services that allocate memory in small
    pieces recommend `never`, because large pages increase their memory use and memory compaction causes
    pauses. A node that only trains has no such services; on a shared node ask first.

    Gain: no source that we know of states a figure for training.

    ## Fix safety

    Shown only. The change lasts until the next boot and applies to memory allocated afterward.

    ## References

    - Documentation/admin-guide/mm/transhuge.rst of the kernel.
    - Huawei, PyTorch training migration and tuning guide, "huge pages"; msprechecker.
    - NVIDIA, Grace Performance Tuning Guide, operating system settings (64 KiB pages).
    """
    text = read_setting(host, f"{FOLDER}/enabled")
    mode = next((word[1:-1] for word in text.split() if word.startswith("[") and word.endswith("]")), "")
    if mode not in MODES:
        raise Unknown(_("{path} has no mode in brackets", path=f"{FOLDER}/enabled"))
    size = read_or_empty(host, f"{FOLDER}/hpage_pmd_size")
    yield Facts({"mode": mode, "bytes": int(size[:18]) if size.isascii() and size.isdigit() else None})
    if size.isascii() and size.isdigit() and int(size[:18]) > USUAL:
        return
    if mode == "never":
        message = _("transparent hugepages are off (never): loading data costs a page fault for each 4 KiB")
        yield _finding(host, "transparent-hugepages.off", message, "madvise", mode)
    # Only Huawei's msprechecker asks for always, so it is said on machines with NPUs.
    elif mode == "madvise" and npu_here(host):
        message = _("transparent hugepages are used only on request (madvise); msprechecker expects always")
        yield _finding(host, "transparent-hugepages.on-request", message, "always", mode)


def _finding(host: Host, code: str, message: str, value: str, mode: str) -> Finding:
    steps = [write_setting(f"{FOLDER}/enabled", value, mode)]
    finding: Finding = advise(
        host,
        code,
        message,
        _(
            "use {wanted} until the next boot, unless a database or similar service shares this machine",
            wanted=value,
        ),
        steps,
    )
    return finding
