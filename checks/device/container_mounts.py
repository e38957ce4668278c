"""Was this container given what it needs of the driver?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, Action, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.device._container_options import ask_for_paths
from npudoctor.host import CannotTell
from npudoctor.host.devices.driver import has_library

# The default folder of the driver's installer; the guides mount it at the same path.
ASCEND = "/usr/local/Ascend"
LIBRARIES = f"{ASCEND}/driver/lib64"
# What the guides mount besides the libraries, one of each group of paths is enough.
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
    """This container has the driver files that it needs.

    ## What it does

    In a container that has NPUs, or is expected to use them, looks for the files that the guides mount into
    it. They may be mounted or part of the image. On a host the check is skipped. The device nodes are the
    subject of another check.

    - `container-mounts.driver`: libascend_hal.so is neither in `/usr/local/Ascend/driver/lib64` (or the
      folder that `/etc/ascend_install.info` names) nor on LD_LIBRARY_PATH.
    - `container-mounts.incomplete`: the driver's version.info, `/usr/local/dcmi`, npu-smi or
      `/etc/ascend_install.info` is missing. A job runs without them, but versions and health are then
      unknown.

    The remedy names the options of `docker run`.

    ## Why it matters

    Without the driver's libraries a job ends with `ImportError: libascend_hal.so: cannot open shared object
    file`, or `Can't get ascend_hal device count`.

    ## References

    - vllm-ascend, installation with Docker; Ascend Docker Runtime, what it mounts by default.
    """
    if not host.system.is_container():
        raise Skip(_("this is not a container"))
    if not host.wants_npus():
        raise Skip(_("this machine has no NPU device node"))

    library = has_library(host.files, host.variables.path_list("LD_LIBRARY_PATH"))
    absent = find_missing(host)
    yield Facts({"library": library, "missing": absent})
    if not library:
        text = _("the driver's libraries are not mounted into this container")
        yield Finding(
            "container-mounts.driver",
            text,
            action=Action.CONFIG,
            fix=ask_for_paths([LIBRARIES, *absent]),
            echo_of=("accelerator.missing", "cann-driver.missing", "cann-driver.no-library"),
        )
    elif absent:
        yield _report_incomplete(absent)


def find_missing(host: Host) -> list[str]:
    """Return the usual mounts besides the libraries that this container lacks."""
    absent = [paths[0] for paths in OTHERS if not any(_exists(host, path) for path in paths)]
    if host.npu_smi.find_program() is not None:
        # npu-smi may also be in the driver's tools folder or elsewhere on PATH.
        absent = [path for path in absent if not path.endswith("npu-smi")]
    return absent


def _exists(host: Host, path: str) -> Optional[bool]:
    """Whether the path exists. One that this user may not examine was mounted by somebody, so it counts."""
    try:
        return host.files.stat(path) is not None
    except CannotTell:
        return True


def _report_incomplete(missing: list[str]) -> Finding:
    return Finding(
        "container-mounts.incomplete",
        _(
            "{paths} is not mounted into this container: some versions or health states cannot be determined",
            paths=", ".join(missing),
        ),
        action=Action.CONFIG,
        fix=ask_for_paths(missing),
        echo_of=("cann-driver.not-mounted",),
    )
