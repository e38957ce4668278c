"""The table of npu-smi for checks that need it; why there is none is for npu-tool to tell."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.host.devices.npu_smi import NpuSmiInfo
from npudoctor.host.devices.npu_tables import Screen


def screen_of(host: Host) -> Screen:
    """The table; Skip where there is no NPU, Unknown where npu-smi gives none."""
    if not host.npus.usable:
        raise Skip(_("this machine has no NPU device node"))
    look = host.npu_smi.look()
    if look.screen is not None:
        return look.screen
    text = _("npu-smi prints no device table; see the check npu-tool")
    raise Unknown(text, advisory=is_elsewhere(host, look))


def is_elsewhere(host: Host, look: NpuSmiInfo) -> bool:
    """Whether what the tool did not say may be no matter of this node: a container need not be given the
    tool, nor a user the right to run it, and jobs run without it. One rule for all who ask it."""
    if host.system.container() or look.answer.ended == "missing":
        return True
    refused = look.answer.ended == "not-started" or (
        look.failure is not None and look.failure.kind == "no-rights"
    )
    return refused and not host.identity.is_root
