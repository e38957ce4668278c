"""All faults; a module that defines some is named here."""

from tests.scenarios.faults import (
    cann,
    closure,
    device,
    driver,
    frameworks,
    fresh_cann,
    fresh_driver,
    fresh_frameworks,
    fresh_job,
    fresh_python,
    fresh_system,
    gpu,
    hccn,
    host,
    install,
    interfaces,
    job,
    leftovers,
    meeting,
    packages,
    python,
    rank_order,
    rank_table,
    site,
)

from .fault import FAULTS

MODULES = (
    cann,
    closure,
    install,
    driver,
    frameworks,
    packages,
    python,
    job,
    site,
    device,
    gpu,
    hccn,
    host,
    interfaces,
    leftovers,
    meeting,
    rank_table,
    rank_order,
    fresh_cann,
    fresh_driver,
    fresh_frameworks,
    fresh_python,
    fresh_system,
    fresh_job,
)

__all__ = ["FAULTS", "MODULES"]
