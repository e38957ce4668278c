"""The table of npu-smi for checks that need it; npu-tool reports why there is none."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.host.devices.npu_smi import NpuSmiInfo
from npudoctor.host.devices.npu_tables import Screen


def screen_of(host: Host) -> Screen:
    """The table; Skip where there is no NPU, Unknown where npu-smi gives none."""
    if not host.npus.is_usable:
        raise Skip(_("this machine has no NPU device node"))
    look = host.npu_smi.read_info()
    if look.screen is not None:
        return look.screen
    text = _("npu-smi prints no device table; see the check npu-tool")
    raise Unknown(text, advisory=is_elsewhere(host, look))


def is_elsewhere(host: Host, look: NpuSmiInfo) -> bool:
    """Whether a silent tool may say nothing about the node: a container need not have the tool, nor a user
    the right to run it, and jobs run without it. One that was started and never answered says something
    everywhere: the driver below it may hang for the job too. One rule for all checks that ask it."""
    if look.answer.ended == "timeout":
        return False
    if host.system.is_container() or look.answer.ended == "missing":
        return True
    refused = look.answer.ended == "not-started" or (
        look.failure is not None and look.failure.kind == "no-rights"
    )
    return refused and not host.identity.is_root
