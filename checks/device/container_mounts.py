"""Was this container given what it needs of the driver?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, Action, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.host import CannotTell

ASCEND = "/usr/local/Ascend"
# What the guides mount besides the libraries, and what is amiss without it. One of the paths is enough.
OTHERS = (
    (f"{ASCEND}/driver/version.info",),
    ("/usr/local/dcmi",),
    ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"),
    ("/etc/ascend_install.info",),
)


@check(
    "container-mounts",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "container-mounts.driver": ERROR,
        "container-mounts.incomplete": INFO,
    },
)
def container_mounts(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This container was given what it needs of the driver.

    ## What it does

    In a container that has NPUs, or is to use them, it looks for what the guides mount into it. It does not
    matter whether that is a mount or part of the image. On a host it is skipped; the device nodes are another
    check's.

    - `container-mounts.driver`: there is no libascend_hal.so, neither in `/usr/local/Ascend/driver/lib64` (or
      where `/etc/ascend_install.info` says) nor on LD_LIBRARY_PATH.
    - `container-mounts.incomplete`: the driver's version.info, `/usr/local/dcmi`, npu-smi or
      `/etc/ascend_install.info` is missing. A job runs without them; versions and health cannot be told.

    The options for `docker run` are the evidence.

    ## Why it matters

    Without the driver's libraries a job ends with `ImportError: libascend_hal.so: cannot open shared object
    file`, or `Can't get ascend_hal device count`.

    ## References

    - vllm-ascend, installation with Docker; Ascend Docker Runtime, what it mounts by default.
    """
    if not host.system.container():
        raise Skip(_("this is no container"))
    if not host.npu_wanted():
        raise Skip(_("no NPU has a device node here"))
    from npudoctor.host.driver import has_library

    library = has_library(host.files, host.variables.path_list("LD_LIBRARY_PATH"))
    missing = [paths[0] for paths in OTHERS if not any(_there(host, path) for path in paths)]
    if host.npu_smi.program() is not None:
        missing = [path for path in missing if not path.endswith("npu-smi")]
    yield Facts({"library": library, "missing": missing})
    if not library:
        yield _driver(missing)
    elif missing:
        yield _incomplete(missing)


def _there(host: Host, path: str) -> Optional[bool]:
    """What cannot be looked at was given all the same."""
    try:
        return host.files.stat(path) is not None
    except CannotTell:
        return True


def _driver(missing: list[str]) -> Finding:
    text = _("the driver's libraries are not mounted into this container; start it with these options too")
    return Finding(
        "container-mounts.driver",
        text,
        evidence=_options([f"{ASCEND}/driver/lib64", *missing]),
        action=Action.CONFIG,
        echo_of=("accelerator.missing", "cann-driver.missing", "cann-driver.no-library"),
    )


def _incomplete(missing: list[str]) -> Finding:
    text = _("{paths} is not mounted into this container: versions and health cannot all be told")
    return Finding(
        "container-mounts.incomplete",
        text.format(paths=", ".join(missing)),
        evidence=_options(missing),
        action=Action.CONFIG,
        echo_of=("cann-driver.not-mounted",),
    )


def _options(paths: list[str]) -> tuple[str, ...]:
    return tuple(f"-v {path}:{path}:ro" for path in paths)
