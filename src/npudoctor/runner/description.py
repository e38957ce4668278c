"""What a report says of the machine itself, found out beside the checks."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Optional

from npudoctor.core.model import HostFacts, PythonFacts, Target
from npudoctor.core.threads import GRACE, start_thread, wait
from npudoctor.host import CannotTell, Host, NotRunning
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.host.python.interpreter import normal

BIRTH = 1.0  # seconds in which a thread must have begun, after all checks were asked


class Description:
    """The machine described in a thread of its own: a hung interpreter must not hold the report."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._machine: Optional[HostFacts] = None
        self._target: Optional[Target] = None
        self._done = threading.Event()
        self._begun = threading.Event()
        with contextlib.suppress(RuntimeError, MemoryError):  # the machine has no room for another thread
            self._begun = start_thread(self._describe)

    def _describe(self) -> None:
        # What fails here is asked by checks too, which say so in a row of theirs.
        with contextlib.suppress(Exception):
            self._machine = describe_host(self._host)
        with contextlib.suppress(Exception):
            self._target = describe_target(self._host)
        self._done.set()

    def by(self, until: float) -> tuple[HostFacts, Target]:
        """The description, or at the deadline what is known without asking anything."""
        wait(self._begun, min(time.monotonic() + BIRTH, until))
        if self._begun.is_set():
            wait(self._done, until + GRACE)
        return self._machine or minimal_host(self._host), self._target or minimal_target(self._host)


def describe_host(host: Host) -> HostFacts:
    """The machine, as a report names it; what cannot be read is left null."""
    system = host.system
    return HostFacts(
        name=system.name,
        boot_id=system.boot_id(),
        machine=system.machine,
        system=system.kernel,
        release=system.release,
        distribution=system.distribution(),
        container=system.container(),
        user=host.identity.user,
    )


def describe_target(host: Host) -> Target:
    """What the machine trains on: what the user expects, else what was found."""
    kind, devices = _kind(host)
    return Target(
        kind=kind,
        model=", ".join(devices.models) or None if devices else None,
        devices=len(devices.nodes) if devices else 0,
        python=_python(host),
        python_from=host.interpreter.chosen_by,
        root=host.options.root,
        driver=_driver(host, kind),
        cann=_cann(host),
        frameworks=_frameworks(host),
        python_of_path=host.interpreter.instead_of,
    )


def minimal_host(host: Host) -> HostFacts:
    """The machine when describing it did not finish: only what the kernel reports without reading files."""
    system = host.system
    return HostFacts(
        system.name, None, system.machine, system.kernel, system.release, None, False, host.identity.user
    )


def minimal_target(host: Host) -> Target:
    """The target when describing it did not finish: only what the options say."""
    path = host.options.python
    python = PythonFacts(path, None) if path is not None else None
    return Target("unknown", None, 0, python, "option" if python else None, host.options.root)


def _kind(host: Host) -> tuple[str, Optional[Accelerators]]:
    if host.options.root is not None:
        return (host.options.expect if host.options.expect != "auto" else "unknown"), None
    try:
        accelerators = {"npu": host.npus, "gpu": host.gpus}
    except CannotTell:
        return "unknown", None
    if host.options.expect in accelerators:
        return host.options.expect, accelerators[host.options.expect]
    if host.options.expect == "none":
        return "none", None
    for kind, devices in accelerators.items():
        if devices.usable:
            return kind, devices
    return "unknown", None


def _driver(host: Host, kind: str) -> Optional[str]:
    """The version of the driver: what the Ascend package says of itself, or NVIDIA's module."""
    with contextlib.suppress(CannotTell, NotRunning):
        if kind == "gpu":
            from npudoctor.facts.gpu.cuda import module_version

            return module_version(host.running_files)
        from npudoctor.host.devices.driver import package

        driver = package(host.files, "driver")
        return driver.version if driver else None
    return None


def _cann(host: Host) -> Optional[str]:
    """The product version of the CANN that a job would use, else that of its component."""
    with contextlib.suppress(CannotTell, NotRunning):
        from npudoctor.facts.cann.in_use import cann_in_use, product_version

        install = cann_in_use(host)
        return (product_version(host, install) or install.component) if install else None
    return None


def _frameworks(host: Host) -> Optional[dict[str, str]]:
    """The frameworks with their versions; None where nobody can tell."""
    from npudoctor.facts.python.frameworks import FRAMEWORKS

    with contextlib.suppress(CannotTell, NotRunning):
        copies = [copy for copy in map(host.interpreter.installed, FRAMEWORKS) if copy is not None]
        if not copies:
            host.interpreter.be_sure_without(FRAMEWORKS[0])
        return {normal(copy.name): copy.version or "?" for copy in copies}
    return None


def _python(host: Host) -> Optional[PythonFacts]:
    interpreter = host.interpreter
    try:
        return PythonFacts(interpreter.path, interpreter.layout().version)
    except CannotTell:
        return PythonFacts(interpreter.path, None) if host.options.root is None else None
