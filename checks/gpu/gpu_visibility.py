"""Does the job see the GPUs that CUDA_VISIBLE_DEVICES names?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Severity,
    Skip,
    Unknown,
    _,
    change_variable,
    check,
)
from npudoctor.facts.gpu.visible import HIDING, LONGEST, RUNTIME, VisibleGpus, cuda_visible

SHOWN = 4096  # of a value, for machines
SHOWN_CHARACTERS = 200  # characters of a value


@check(
    "gpu-visibility",
    scope=Scope.JOB,
    tags={"nvidia"},
    needs=("$CUDA_VISIBLE_DEVICES",),
    codes={
        "gpu-visibility.none-left": ERROR,
        "gpu-visibility.repeated": ERROR,
        "gpu-visibility.no-such-device": WARNING,
        "gpu-visibility.hidden": ERROR,
    },
)
def gpu_visibility(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job sees every GPU in CUDA_VISIBLE_DEVICES.

    ## What it does

    Reads CUDA_VISIBLE_DEVICES as CUDA does, and compares it with `/dev/nvidiaN`. Numbers count from 0 among
    the GPUs that are present, even in a container that was given GPU 4 and 5. CUDA stops at the first number
    that is not one of these. Names (`GPU-...`) may be shortened to a prefix that is unique; the driver is
    asked for the names only if the value contains one.

    - `gpu-visibility.none-left`: no part of the value is a GPU of this machine, so the job finds none.
    - `gpu-visibility.repeated`: a GPU is listed twice: CUDA does not start at all (error 101).
    - `gpu-visibility.no-such-device`: the job gets fewer GPUs than the value lists.
    - `gpu-visibility.hidden`: the value is empty, -1, or Slurm's NoDevFiles: somebody hid all GPUs.
      Information, unless `--expect gpu` says that the job needs one.

    If the value lists parts of a GPU (`MIG-...`), the result is unknown, which does not affect the verdict.

    ## Why it matters

    `No CUDA GPUs are available`, or ranks that all run on one GPU. The cause is a line copied from a node
    with eight GPUs, or a value left in the shell.

    ## Fix safety

    The lines are for the shell that starts the job; nothing is written.

    ## References

    - NVIDIA, CUDA programming guide: CUDA environment variables.
    - How the parts are read was measured with driver 580.159 on an H100.
    """

    value = host.variables.get(RUNTIME)
    if value is None:
        raise Skip(_("{name} is not set", name=RUNTIME))
    count = len(host.gpus.nodes)
    yield Facts({"nodes": list(host.gpus.nodes), "value": value[:SHOWN]})
    if not count:
        raise Skip(_("this machine has no GPU device node"))
    if value.strip() in HIDING:
        yield _report_hidden(host, value)
        return
    visible = _read_value(host, value)
    # The ids that CUDA really uses make a value that means the same and has no errors.
    ids = ",".join(map(str, visible.ids))
    better = _show_all(value)
    if ids:
        better = change_variable(_("choose the GPUs {ids}", ids=ids), RUNTIME, ids, value)
    # CUDA then fails with error 101 (invalid device ordinal); measured with driver 580.159 on an H100.
    if visible.repeated:
        text = _("{name}={value} lists a GPU twice: CUDA does not start")
        yield _finding("gpu-visibility.repeated", text, value, better)
    elif visible.stopped and not visible.ids:
        text = _("{name}={value} leaves the job no GPU: there are {count}, counted from 0")
        yield _finding("gpu-visibility.none-left", text, value, better, count=count)
    # -1 and a trailing comma end the list on purpose: CUDA sees the devices before them.
    elif visible.stopped and visible.stopped.strip(" ,") not in ("", "-1"):
        text = _("{name}={value} is read as {ids}: there are {count} GPUs, counted from 0")
        yield _finding("gpu-visibility.no-such-device", text, value, better, ids=ids, count=count)
    if visible.unknown:
        raise Unknown(
            _(
                "{name} lists {part}: could not determine whether this machine has it",
                name=RUNTIME,
                part=visible.unknown[:100],
            ),
            advisory=True,
        )


def _read_value(host: Host, value: str) -> VisibleGpus:
    """Return how CUDA reads the value. The driver is asked for the GPUs' UUIDs only if the value contains
    one, because that takes a child process."""
    count = len(host.gpus.nodes)
    visible = cuda_visible(value[:LONGEST], count)
    if not visible.unknown.upper().startswith("GPU-"):
        return visible
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.gpu.nvml import ask_gpus

    gpus = ask_gpus(host)
    return cuda_visible(value[:LONGEST], len(gpus), [gpu.uuid for gpu in gpus])


def _report_hidden(host: Host, value: str) -> Finding:
    """Report a value that hides all GPUs: information, unless --expect gpu says that the job needs one."""
    return Finding(
        "gpu-visibility.hidden",
        _("{name}={value} hides every GPU from the job", name=RUNTIME, value=value),
        severity=None if host.options.expect == "gpu" else Severity.INFO,
        evidence=(f"{RUNTIME}={value}",),
        action=Action.CONFIG,
        fix=_show_all(value),
    )


def _show_all(before: str) -> Fix:
    return change_variable(_("let the job see all GPUs"), RUNTIME, None, before)


def _finding(code: str, text: str, value: str, fix: Fix, **words: object) -> Finding:
    # As it would be written in a script: characters that cannot be printed are escaped.
    shown = repr(value[:SHOWN_CHARACTERS])[1:-1] + ("..." if value[SHOWN_CHARACTERS:] else "")
    return Finding(
        code,
        text.format(name=RUNTIME, value=shown, **words),
        evidence=(f"{RUNTIME}={shown}",),
        action=Action.CONFIG,
        fix=fix,
    )
