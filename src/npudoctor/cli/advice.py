"""What `npudoctor` alone says beside its help: which command is the next one on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from npudoctor.core.messages import _, ngettext
from npudoctor.render.columns import pad, paragraph, width

if TYPE_CHECKING:
    from npudoctor.host import Host

SECONDS = 1.0  # that a file system may take to answer: nobody asked for a check


def advice_text(variables: Mapping[str, str]) -> str:
    """The lines to type and what for; never an error, as nothing was asked for."""
    lines = list(_lines(variables))
    columns = max(width(command) for command, _why in lines)
    return "".join(
        f"{line}\n"
        for command, why in lines
        for line in paragraph(why, f"  {pad(command, columns)}  ", " " * (columns + 4))
    )


def _lines(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from npudoctor.explain.reading.newest import automatic
    from npudoctor.host import Host, Options
    from npudoctor.host.fs.files import LocalDisk

    disk = LocalDisk()
    disk.deadline = min(disk.deadline, SECONDS)
    with closing(Host(Options(), disk=disk, variables=variables)) as host:
        yield from check_lines(host)
    if variables.get("SLURM_JOB_NUM_NODES", "1") not in ("", "1"):
        yield "npudoctor fleet check --engine slurm", _("checks all nodes of this Slurm job")
    logs = False
    with suppress(Exception):  # no advice, then
        logs = bool(automatic(variables).found)
    if logs:
        yield "npudoctor explain", _("says what the newest logs in this directory mean")


def check_lines(host: Host) -> Iterator[tuple[str, str]]:
    """How this machine is checked, by what it has."""
    devices = []
    with suppress(Exception):  # what cannot be looked at is for the check to say
        npus, gpus = len(host.npus.nodes), len(host.gpus.nodes)
        if npus:
            devices.append(ngettext("{count} NPU", "{count} NPUs", npus, count=npus))
        if gpus:
            devices.append(ngettext("{count} GPU", "{count} GPUs", gpus, count=gpus))
    if devices:
        yield "npudoctor check", _("can this machine train on its {devices}?", devices=_(", ").join(devices))
    else:
        yield "npudoctor check --expect none", _("for a machine without NPU or GPU, like this one")
        yield "npudoctor check --expect npu", _("shows why no NPU is found, if one is expected")
