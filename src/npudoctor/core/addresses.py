"""IP addresses as text. Pure."""

from __future__ import annotations

from typing import Optional


def ip_address(text: str) -> Optional[str]:
    """The usual spelling of an IP address, without brackets and zone; None when the text is not an
    address.
    """
    # Imported late: it takes milliseconds to load, and most runs compare no address.
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.strip("[]").partition("%")[0]))
    except ValueError:
        return None
