"""What is wrong with a choice of GPUs, and the line that sets it right."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import Action, Command, Export, Finding, Fix, Host, Risk, Severity, _
from npudoctor.facts.gpu.visible import LONGEST, RUNTIME, VisibleGpus, cuda_visible

SHOWN = 200  # characters of a value


def seen(host: Host, value: str) -> VisibleGpus:
    """What CUDA makes of it; the driver is asked for the GPUs' names only where the value has one."""
    count = len(host.gpus.nodes)
    found = cuda_visible(value[:LONGEST], count)
    if not found.unknown.upper().startswith("GPU-"):
        return found
    from npudoctor.facts.gpu.nvml import ask_gpus

    gpus = ask_gpus(host)
    return cuda_visible(value[:LONGEST], len(gpus), [gpu.uuid for gpu in gpus])


def hidden(host: Host, value: str) -> Finding:
    """All GPUs are hidden on purpose: whose purpose, is the question."""
    return Finding(
        "gpu-visibility.hidden",
        _("{name}={value} hides every GPU from the job").format(name=RUNTIME, value=value),
        severity=None if host.options.expect == "gpu" else Severity.INFO,
        evidence=(f"{RUNTIME}={value}",),
        action=Action.CONFIG,
        fix=_all(value),
    )


def judged(value: str, found: VisibleGpus, count: int) -> Iterator[Finding]:
    """What CUDA makes of it and nobody meant."""
    better = _chosen(found.ids, value) if found.ids else _all(value)
    ids = ",".join(map(str, found.ids))
    if found.repeated:
        text = _("{name}={value} lists a GPU twice, and CUDA does not start with that")
        yield _finding("gpu-visibility.repeated", text, value, better)
    elif found.stopped and not found.ids:
        text = _("{name}={value} leaves the job no GPU: there are {count}, counted from 0")
        yield _finding("gpu-visibility.none-left", text, value, better, count=count)
    elif found.stopped and found.stopped.strip(" ,") not in ("", "-1"):
        text = _("{name}={value} is read as {ids}: there are {count} GPUs, counted from 0")
        yield _finding("gpu-visibility.no-such-device", text, value, better, ids=ids, count=count)


def _chosen(ids: tuple[int, ...], before: str) -> Fix:
    better = ",".join(map(str, ids))
    return Fix(
        _("choose the GPUs {ids}").format(ids=better),
        steps=(Export(RUNTIME, better),),
        undo=Export(RUNTIME, before).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _all(before: str) -> Fix:
    return Fix(
        _("let the job see all GPUs"),
        steps=(Command(("unset", RUNTIME)),),
        undo=Export(RUNTIME, before).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _finding(code: str, text: str, value: str, fix: Fix, **words: object) -> Finding:
    # As it would be written in a script: what is no printable character is told by its escape.
    shown = repr(value[:SHOWN])[1:-1] + ("..." if value[SHOWN:] else "")
    return Finding(
        code,
        text.format(name=RUNTIME, value=shown, **words),
        evidence=(f"{RUNTIME}={shown}",),
        action=Action.CONFIG,
        fix=fix,
    )
