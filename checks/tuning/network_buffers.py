"""May one TCP connection fill a fast port?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, Facts, Finding, Host, Scope, SetKernel, Skip, Unknown, _, check
from npudoctor.checks.tuning._fast_links import fast_links
from npudoctor.checks.tuning._settings import advise, read_setting
from npudoctor.core.sizes import size_text

# Minimum, default and maximum in bytes; a connection grows its buffer up to the third by itself (tcp(7)).
NAMES = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
ROUND_TRIP = 0.001  # seconds: a large cluster under load
# 16 MiB is in openEuler's A-Tune (network-intensive), 64 MiB in ESnet's host tuning guide.
STEPS = tuple(mebibytes << 20 for mebibytes in (16, 64, 128))


@check(
    "network-buffers",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"network-buffers.small": INFO},
)
def network_buffers(host: Host) -> Iterator[Union[Finding, Facts]]:
    """TCP buffers let one connection fill the fastest port.

    ## What it does

    Compares the largest buffers that the kernel gives a TCP connection (the third number of
    `net.ipv4.tcp_rmem` and `net.ipv4.tcp_wmem`) with the data in flight at the speed of the fastest Ethernet
    port during a round trip of 1 ms. Half of a buffer holds data, the rest is the kernel's. The check applies
    from 25 Gb/s on.

    - `network-buffers.small`: one connection cannot use the full speed of the port at that round trip time.

    ## Why it matters

    The limit affects checkpoints, datasets over the network, and collectives over TCP (Gloo, NCCL without
    RDMA; the connection setup of HCCL is not significant). RDMA does not use these buffers. Within one rack,
    where a round trip takes 0.1 ms, the kernel's own values are enough up to 200 Gb/s; many parallel
    connections hide the limit too. Only connections that need it use the additional memory.

    Gain: the message states the round trip time from which the limit applies. No source states a figure for
    training.

    ## Fix safety

    Shown only. The change lasts until the next boot, in this network namespace, for connections opened
    afterward.

    ## References

    - Documentation/networking/ip-sysctl.rst of the kernel, tcp_rmem, tcp_wmem, tcp_adv_win_scale.
    - ESnet, fasterdata.es.net, Linux host tuning (64 MiB); openEuler, A-Tune, network-intensive (16 MiB).
    """
    links = fast_links(host)
    if not links:
        raise Skip(_("no Ethernet port of 25 Gb/s or more is up here"))
    fastest = max(links, key=lambda link: link.speed)
    settings = {name: read_setting(host, _path(name)) for name in NAMES}
    limits: dict[str, Optional[int]] = {}
    for name, value in settings.items():
        words = value.split()
        is_valid = len(words) == 3 and all(
            word.isascii() and word.isdigit() and len(word) < 16 for word in words
        )
        limits[name] = int(words[2]) if is_valid else None  # the third of three numbers, in bytes
    unread = [name for name, limit in limits.items() if limit is None]
    if unread:
        raise Unknown(_("{path} does not contain three numbers", path=_path(unread[0])))
    yield Facts({"port": fastest.name, "speed": fastest.speed, "limits": limits})
    # The speed is in Mb/s.
    bytes_a_second = fastest.speed * 125_000
    for name, limit in limits.items():
        # Half of a buffer holds data, the rest is the kernel's overhead (ip-sysctl.rst, tcp_adv_win_scale =
        # 1).
        if limit is not None and limit // 2 < bytes_a_second * ROUND_TRIP:
            values = {"port": fastest.name, "speed": f"{fastest.speed / 1000:g}", "name": name}
            time = f"{limit / 2 / bytes_a_second * 1000:.2g}"
            # The smallest usual size that suffices; no guide recommends more than the largest.
            least = 2 * bytes_a_second * ROUND_TRIP
            size = next((step for step in STEPS if step >= least), STEPS[-1])
            yield advise(
                host,
                "network-buffers.small",
                _(
                    "with {name} at {size}, one connection fills {port} ({speed} Gb/s) only up to {time} ms "
                    "round trip",
                    **values,
                    time=time,
                    size=size_text(limit),
                ),
                _("raise the limit until the next boot, if jobs here transfer much data over TCP"),
                [SetKernel(name, " ".join([*settings[name].split()[:2], str(size)]), settings[name])],
            )


def _path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")
