"""The faults that can be rehearsed; importing a module of this package adds its faults to FAULTS."""

from npudoctor.rehearsal.fault import FAULTS
from npudoctor.rehearsal.faults import accelerators, environment, leftovers, network, system, tuning

MODULES = (leftovers, system, network, environment, accelerators, tuning)
__all__ = ["FAULTS", "MODULES"]
