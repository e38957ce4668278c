"""The faults that can be rehearsed; each module here adds its own to the list."""

from npudoctor.rehearsal.fault import FAULTS
from npudoctor.rehearsal.faults import accelerators, environment, leftovers, network, system, tuning

MODULES = (leftovers, system, network, environment, accelerators, tuning)
__all__ = ["FAULTS", "MODULES"]
