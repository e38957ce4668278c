"""Describes the machine for the report, in parallel with the checks."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Optional

from npudoctor.core.model import HostFacts, PythonFacts, Target
from npudoctor.core.threads import GRACE, start_thread, wait
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.python.frameworks import installed_job_distributions
from npudoctor.host import CannotTell, Host, NotRunning
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.host.devices.driver import find_package
from npudoctor.host.python.interpreter import normalize_name

THREAD_START_SECONDS = (
    1.0  # seconds within which the thread must run, counted from when all checks have ended
)


class Description:
    """Describes the machine in a thread of its own: an interpreter that hangs must not delay the report."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._machine: Optional[HostFacts] = None
        self._target: Optional[Target] = None
        self._done = threading.Event()
        self._begun = threading.Event()
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread can be started: see `result_by`
            self._begun = start_thread(self._describe)

    def _describe(self) -> None:
        # An error here is no loss: checks read the same sources and report it in a row.
        with contextlib.suppress(Exception):
            system = self._host.system
            self._machine = HostFacts(  # what cannot be read is None
                name=system.name,
                boot_id=system.boot_id(),
                machine=system.machine,
                system=system.kernel,
                release=system.release,
                distribution=system.distribution(),
                container=system.is_container(),
                user=self._host.identity.user,
            )
        with contextlib.suppress(Exception):
            self._target = describe_target(self._host)
        self._done.set()

    def result_by(self, until: float) -> tuple[HostFacts, Target]:
        """Wait for the description until a time on the monotonic clock; then the parts known without
        reading."""
        wait(self._begun, min(time.monotonic() + THREAD_START_SECONDS, until))
        if self._begun.is_set():
            wait(self._done, until + GRACE)
        return self._machine or minimal_host(self._host), self._target or minimal_target(self._host)


def describe_target(host: Host) -> Target:
    """The accelerator (the expected one, else the one that was found), Python, driver, CANN and
    frameworks."""
    kind, devices = _find_accelerators(host)
    interpreter = host.interpreter
    python: Optional[PythonFacts] = None
    try:
        python = PythonFacts(interpreter.path, interpreter.layout().version)
    except CannotTell:
        if host.options.root is None:
            python = PythonFacts(interpreter.path, None)
    driver = cann = frameworks = None
    # No driver, or one that cannot be read: None.
    with contextlib.suppress(CannotTell, NotRunning):
        if kind == "gpu":
            from npudoctor.facts.gpu.cuda import module_version

            driver = module_version(host.running_files)
        else:
            ascend = find_package(host.files, "driver")
            driver = ascend.version if ascend else None
    # No CANN, or one that cannot be read: None.
    with contextlib.suppress(CannotTell, NotRunning):
        install = cann_in_use(host)
        cann = (product_version(host, install) or install.component) if install else None
    # Stays None when it cannot be told, as opposed to {}: no framework is installed.
    with contextlib.suppress(CannotTell, NotRunning):
        copies = [*installed_job_distributions(host).values()]
        if not copies:
            interpreter.require_certain_absence("torch")
        frameworks = {normalize_name(copy.name): copy.version or "?" for copy in copies}
    return Target(
        kind=kind,
        model=", ".join(devices.models) or None if devices else None,
        devices=len(devices.nodes) if devices else 0,
        python=python,
        python_from=interpreter.chosen_by,
        root=host.options.root,
        driver=driver,
        cann=cann,
        frameworks=frameworks,
        python_of_path=interpreter.instead_of,
    )


def minimal_host(host: Host) -> HostFacts:
    """The machine when describing it did not finish: only what uname() and geteuid() tell."""
    system = host.system
    return HostFacts(
        system.name, None, system.machine, system.kernel, system.release, None, False, host.identity.user
    )


def minimal_target(host: Host) -> Target:
    """The target when describing it did not finish: only what the options tell."""
    path = host.options.python
    python = PythonFacts(path, None) if path is not None else None
    return Target("unknown", None, 0, python, "option" if python else None, host.options.root)


def _find_accelerators(host: Host) -> tuple[str, Optional[Accelerators]]:
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
        if devices.is_usable:
            return kind, devices
    return "unknown", None
