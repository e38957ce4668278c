"""The facts of a node by section, each with its value or with why it could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.redact.bundle import helps_support
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redact import redact, redact_value
from npudoctor.facts.snapshot.kernel import cgroup, limits, network, sysctls, system
from npudoctor.facts.snapshot.values import Fact, Value, fact, not_running
from npudoctor.host.host import Host

Reader = Callable[[Host], Iterator[Fact]]


@dataclass(frozen=True)
class FactSection:
    """One section: its facts. `failed`: why it ended before it was complete, or "".

    `crashed`: by a defect of ours. `advisory`: it cannot be seen from here, whatever the node has.
    """

    name: str
    facts: tuple[Fact, ...]
    failed: str = ""
    crashed: bool = False
    advisory: bool = False


def read_section(name: str, host: Host) -> FactSection:
    """Read one section. An error is recorded in the section and does not stop the others."""
    facts: list[Fact] = []
    try:
        for read in READERS[name](host):
            facts.append(_hide_secrets(name, read))
    except NotRunning:
        return FactSection(name, tuple(facts), not_running(), advisory=True)
    except CannotTell as error:
        return FactSection(name, tuple(facts), redact(error.reason), advisory=error.advisory)
    # A defect in one section must not cost the others.
    except Exception as error:
        return FactSection(name, tuple(facts), redact(f"{type(error).__name__}: {error}"), crashed=True)
    return FactSection(name, tuple(facts))


def _hide_secrets(section: str, read: Fact) -> Fact:
    """The fact without secrets. Names of packages announce no secret: `secretstorage` has a version too."""
    value = read.value
    if section == "variables" and isinstance(value, str):
        # Of a variable that is somebody's own only the name is told, as in a bundle of `explain --collect`.
        shown = redact_value({read.name: value}) if helps_support(read.name) else None
        return Fact(read.name, str(shown[read.name]) if isinstance(shown, dict) else HIDDEN)
    if isinstance(value, tuple):
        value = tuple(redact(part) for part in value)
    elif isinstance(value, str):
        value = redact(value)
    return Fact(read.name, value, redact(read.unread) if read.unread else "", read.advisory)


def _cann(host: Host) -> Iterator[Fact]:
    from npudoctor.facts.cann.in_use import product_version
    from npudoctor.facts.cann.installations import installs_of

    installs = installs_of(host)
    active = installs[0] if installs else None
    yield fact("version", lambda: product_version(host, active) if active else None)
    yield Fact("component", active.component if active else None)
    yield Fact("path", active.path if active else None)
    yield Fact("kind", active.kind if active else None)
    yield Fact("architecture", active.arch if active else None)
    yield Fact("installed", tuple(install.label for install in installs))


def _driver(host: Host) -> Iterator[Fact]:
    # Imported late, as in the other sections: a diff of two files reads none of them.
    from npudoctor.facts.gpu.cuda import module_version, runtimes
    from npudoctor.host.devices.driver import find_package

    def version(kind: str) -> Value:
        installed = find_package(host.files, kind)
        return installed.version if installed else None

    yield fact("NPU driver", lambda: version("driver"))
    yield fact("NPU firmware", lambda: version("firmware"))
    yield fact("GPU driver", lambda: module_version(host.running_files))
    yield fact(
        "CUDA of frameworks",
        lambda: tuple(f"{runtime.framework} {runtime.cuda}" for runtime in runtimes(host)),
    )


def _accelerator(host: Host) -> Iterator[Fact]:
    """Yield number, models and kernel driver of NPUs and GPUs."""
    for kind, devices in (("NPU", host.npus), ("GPU", host.gpus)):
        yield Fact(f"{kind}s", len(devices.nodes))
        yield Fact(f"{kind} models", devices.models, devices.unread or "")
        yield Fact(f"{kind} kernel driver", devices.kernel_drivers, devices.unread or "")


def _python(host: Host) -> Iterator[Fact]:
    interpreter = host.interpreter
    yield Fact("path", interpreter.path)
    yield Fact("chosen by", interpreter.chosen_by)
    layout = interpreter.layout()
    yield Fact("version", layout.version)
    yield Fact("machine", layout.machine)
    yield Fact("search path", layout.search_path)


def _packages(host: Host) -> Iterator[Fact]:
    """The first copy of each on the search path, which is the one that is imported."""
    from npudoctor.host.python.interpreter import normalize_name

    for copy in sorted(
        host.interpreter.all_installed(), key=lambda distribution: normalize_name(distribution.name)
    ):
        yield Fact(normalize_name(copy.name), copy.version or "?")
    host.interpreter.require_certain_absence("torch")


def _variables(host: Host) -> Iterator[Fact]:
    """Yield the variables of the job."""
    yield from (Fact(name, value) for name, value in sorted(host.variables.items()))


def _hccn(host: Host) -> Iterator[Fact]:
    if not host.wants_npus() or not host.hccn.devices():
        return
    program = host.hccn.find_program()
    if program is None:
        raise CannotTell(_("hccn_tool was not found"), advisory=True)
    # hccn_tool itself refuses others.
    if not host.identity.is_root:
        raise CannotTell(_("only root may run hccn_tool"), advisory=True)
    if not host.commands.may_run(program):
        raise CannotTell(
            _("{path} is not run as root: it or a folder above it is writable by other users", path=program),
            advisory=True,
        )
    for port in host.hccn.ports():
        for name, reply in port.replies.items():
            label = f"NPU {port.device} {name}"
            if reply.kind not in ("told", "unset"):
                yield Fact(label, unread=reply.kind)
            yield from (Fact(f"NPU {port.device} {key}", value) for key, value in reply.values.items())


# In this order a snapshot is read and shown.
READERS: dict[str, Reader] = {
    "system": system,
    "accelerator": _accelerator,
    "driver": _driver,
    "cann": _cann,
    "python": _python,
    "packages": _packages,
    "variables": _variables,
    "limits": limits,
    "cgroup": cgroup,
    "sysctls": sysctls,
    "network": network,
    "hccn": _hccn,
}
# A fact that is not there does not exist on the node; in the others every fact is always told.
OPEN = frozenset(("packages", "variables", "network", "hccn"))
