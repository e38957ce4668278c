"""Parses /etc/hccn.conf: the addresses that the driver gives to the network ports of the NPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.files import Files

CONF = "/etc/hccn.conf"
MAX_CONF_BYTES = 1 << 20


@dataclass(frozen=True)
class HccnConf:
    """The settings by physical id, such as {0: {"address": "192.0.2.10"}}.

    `odd_lines`: lines that are not settings. `conflicts`: settings that are given twice with two values.
    """

    devices: Mapping[int, Mapping[str, str]]
    odd_lines: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    def get(self, device: int, name: str) -> Optional[str]:
        """One setting of a device; None if it is missing or empty."""
        return self.devices.get(device, {}).get(name) or None

    def addresses(self) -> dict[int, str]:
        """The addresses by physical id."""
        addresses = {device: settings.get("address", "") for device, settings in self.devices.items()}
        return {device: address for device, address in addresses.items() if address}


def parse_conf(text: str) -> HccnConf:
    """Parse the lines `name_N=value`; of a setting that is given twice the first counts."""
    devices: dict[int, dict[str, str]] = {}
    odd_lines: list[str] = []
    clashes: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        name, underscore, number = key.strip().rpartition("_")
        if not equals or not underscore or not (number.isascii() and number.isdecimal()):
            odd_lines.append(line.strip())
            continue
        first_value = devices.setdefault(int(number), {}).setdefault(name, value.strip())
        if first_value != value.strip():
            clashes.append(key.strip())
    return HccnConf(devices, tuple(odd_lines), tuple(dict.fromkeys(clashes)))


def read_conf(files: Files) -> Optional[HccnConf]:
    """The settings in the file; None if it does not exist, CannotTell if it cannot be read."""
    text = files.text(CONF, MAX_CONF_BYTES)
    return None if text is None else parse_conf(text.lstrip("\ufeff"))


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    import ipaddress  # here and below: most runs need none of these functions

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_netmask(text: str) -> bool:
    """Whether a text is an IPv4 netmask: one bits, then zero bits."""
    import ipaddress

    try:
        bits = f"{int(ipaddress.IPv4Address(text)):032b}"
    except ValueError:
        return False
    return "01" not in bits and "1" in bits


def is_in_network(candidate: str, address: str, netmask: str) -> bool:
    """Whether `candidate` is in the network of an IPv4 address; True also if one of the texts is invalid,
    which other findings report."""
    import ipaddress

    try:
        network = ipaddress.IPv4Network(f"{address}/{netmask}", strict=False)
        return not is_netmask(netmask) or ipaddress.IPv4Address(candidate) in network
    except ValueError:
        return True
