"""The CANN that a job would use, and the product version by which frameworks are compared with it."""

from __future__ import annotations

from typing import Optional

from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.host.host import Host


def cann_in_use(host: Host) -> Optional[Install]:
    """The CANN that the variables name, else the first that is found; in an image the first found. None where
    there is none.
    """
    return next(iter(installs_of(host)), None)


def product_version(host: Host, install: Install) -> Optional[str]:
    """The product version of an installation: its own, or, where it only states its component version, by our
    table. None where the table does not know it.
    """
    # Without a component there is nothing to look up by.
    if install.version or not install.component:
        return install.version
    from npudoctor.knowledge.frameworks import product_of  # the tables, for few releases

    return product_of(host.knowledge, install.component)
