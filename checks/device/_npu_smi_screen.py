"""The table of npu-smi for checks that need it; npu-tool reports why there is none."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.host.devices.npu_smi import NpuSmiInfo
from npudoctor.host.devices.npu_tables import Screen


def screen_of(host: Host) -> Screen:
    """Return the table of npu-smi. Raises Skip if there is no NPU, Unknown if npu-smi prints no table."""
    if not host.npus.is_usable:
        raise Skip(_("this machine has no NPU device node"))
    look = host.npu_smi.read_info()
    if look.screen is not None:
        return look.screen
    text = _("npu-smi prints no device table; see the check npu-tool")
    raise Unknown(text, advisory=is_inconclusive(host, look))


def is_inconclusive(host: Host, look: NpuSmiInfo) -> bool:
    """Whether a missing answer of npu-smi says nothing about the node: a container need not have the tool, a
    user need not be allowed to run it, and jobs run without it. A timeout is never inconclusive: the driver
    may hang for the job too. One rule for all checks that use the tool."""
    if look.answer.ended == "timeout":
        return False
    if host.system.is_container() or look.answer.ended == "missing":
        return True
    is_denied = look.answer.ended == "not-started" or (
        look.failure is not None and look.failure.kind == "no-rights"
    )
    return is_denied and not host.identity.is_root
