"""The faults that can be rehearsed; importing a module here adds its own to the list."""

from npudoctor.rehearsal.faults import accelerators, environment, leftovers, network, system, tuning

MODULES = (leftovers, system, network, environment, accelerators, tuning)
