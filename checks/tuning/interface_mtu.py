"""Do fast ports send large frames?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Command, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.tuning._fast_links import fast_links
from npudoctor.checks.tuning._settings import advise

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
    """Fast Ethernet ports send jumbo frames.

    ## What it does

    Reads the MTU of each Ethernet port of 25 Gb/s and more of the machine. The NPUs' own ports are set in
    /etc/hccn.conf, see the check `hccn-config`.

    - `interface-mtu.small`: it is below 4200 bytes.

    ## Why it matters

    RoCE sends frames of 1024 bytes over an MTU of 1500, and of 4096 from 4200 on. TCP needs a sixth of the
    packets with 9000.

    It is right only where every port and switch on the way has it too: where one has not, large packets
    vanish, and connections hang after their first bytes. Change a whole network, never one node. In
    networks of a cloud the provider says how much is possible.

    What it is worth: The sources state no figure for training.

    ## Fix safety

    Shown only. It holds until the next boot.

    ## References

    - NVIDIA (Mellanox), "MTU considerations for RoCE based applications".
    - ESnet, fasterdata.es.net, MTU issues. ip-link(8).
    """
    devices = {link.device: host.network.link_settings(link.device).mtu for link in fast_links(host)}
    known = {device: mtu for device, mtu in devices.items() if mtu}
    if not known:
        raise Skip(_("no Ethernet port of 25 Gb/s or more is up here"))
    yield Facts({"mtu": known})
    for device, mtu in known.items():
        if mtu < ROCE:
            line = ("ip", "link", "set", "dev", device, "mtu")
            yield advise(
                host,
                "interface-mtu.small",
                _(
                    "the MTU of {port} is {mtu}: RoCE needs {roce} for its largest frames, TCP gains up to "
                    "9000",
                    port=device,
                    mtu=mtu,
                    roce=ROCE,
                ),
                _("only if all nodes and switches of this network have it too, until the next boot"),
                [Command((*line, str(JUMBO)), undo=(*line, str(mtu)))],
            )
