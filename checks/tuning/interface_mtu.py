"""Do fast ports send large frames?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Command, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.tuning._fast_links import fast_links
from npudoctor.checks.tuning._settings import advise

# 9000 is what switches and clouds call jumbo frames; no standard defines the size.
STANDARD, JUMBO = 1500, 9000
ROCE = 4200  # bytes of Ethernet from which on RoCE sends its largest frame, 4096


@check(
    "interface-mtu",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"interface-mtu.small": INFO},
)
def interface_mtu(host: Host) -> Iterator[Union[Finding, Facts]]:
    """High-speed Ethernet ports use jumbo frames.

    ## What it does

    Reads the MTU of each Ethernet port of 25 Gb/s and more of the machine. The NPUs' own ports are set in
    /etc/hccn.conf, see the check `hccn-config`.

    - `interface-mtu.small`: the MTU of a port is below 4200 bytes.

    ## Why it matters

    RoCE sends frames of 1024 bytes with an MTU of 1500, and of 4096 bytes with an MTU of 4200 or more. With
    an MTU of 9000, TCP needs a sixth of the packets.

    A larger MTU is right only if every port and switch on the way has it too. Otherwise large packets are
    lost, and connections hang after their first bytes. Change a whole network, never one node. In cloud
    networks the provider specifies the possible MTU.

    Gain: the sources state no figure for training.

    ## Fix safety

    Shown only. The change lasts until the next boot.

    ## References

    - NVIDIA (Mellanox), "MTU considerations for RoCE based applications".
    - ESnet, fasterdata.es.net, MTU issues. ip-link(8).
    """
    devices = {link.device: host.network.link_settings(link.device).mtu for link in fast_links(host)}
    mtu_by_device = {device: mtu for device, mtu in devices.items() if mtu}
    if not mtu_by_device:
        raise Skip(_("no Ethernet port of 25 Gb/s or more is up here"))
    yield Facts({"mtu": mtu_by_device})
    for device, mtu in mtu_by_device.items():
        # RoCE's frames are 256 to 4096 bytes in powers of two: below 4200 bytes of Ethernet only 2048 or less
        # fit.
        if mtu < ROCE:
            line = ("ip", "link", "set", "dev", device, "mtu")
            yield advise(
                host,
                "interface-mtu.small",
                _(
                    "the MTU of {port} is {mtu}: RoCE needs {roce} for its largest frames; TCP benefits up "
                    "to "
                    "9000",
                    port=device,
                    mtu=mtu,
                    roce=ROCE,
                ),
                _(
                    "raise the MTU until the next boot, only if all nodes and switches of this network use "
                    "it too"
                ),
                [Command((*line, str(JUMBO)), undo=(*line, str(mtu)))],
            )
