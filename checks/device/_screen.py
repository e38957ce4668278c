"""The table of npu-smi for checks that need it; why there is none is for npu-tool to tell."""

from __future__ import annotations

from npudoctor import Host, Skip, Unknown, _
from npudoctor.host.npu_tables import Screen


def screen_of(host: Host) -> Screen:
    """The table; Skip where there is no NPU, Unknown where npu-smi gives none."""
    if not host.npus.usable:
        raise Skip(_("no NPU has a device node here"))
    look = host.npu_smi.look()
    if look.screen is not None:
        return look.screen
    # A container need not be given the tool, nor a user the right to run it.
    refused = look.answer.ended == "not-started" or (
        look.failure is not None and look.failure.kind == "no-rights"
    )
    elsewhere = host.system.container() or (refused and not host.identity.is_root)
    raise Unknown(_("npu-smi gives no table of the devices; npu-tool tells why"), advisory=elsewhere)
