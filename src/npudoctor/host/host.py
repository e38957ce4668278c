"""The machine under examination as one object: every question about it is asked here, and only once."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.core.messages import _
from npudoctor.core.once import Once
from npudoctor.host.clock import Clock
from npudoctor.host.devices.accelerators import Accelerators, find_gpus, find_npus
from npudoctor.host.fs.files import Disk, Files, LocalDisk
from npudoctor.host.libraries.library import Libraries
from npudoctor.host.network.interfaces import interface_addresses
from npudoctor.host.network.sockets import Sockets
from npudoctor.host.options import Options as Options
from npudoctor.host.process.commands import Commands
from npudoctor.host.process.processes import Processes, pid_exists, ticks_per_second
from npudoctor.host.process.sysvipc import SysVIPC
from npudoctor.host.python.interpreter import Interpreter
from npudoctor.host.records import Records
from npudoctor.host.system import System
from npudoctor.host.users.identity import Identity, current_identity
from npudoctor.host.variables import Variables

if TYPE_CHECKING:
    from npudoctor.host.devices.hccn import Hccn
    from npudoctor.host.devices.npu_smi import NpuSmi
    from npudoctor.host.network.names import Names
    from npudoctor.host.network.network import Network
    from npudoctor.host.process.pidfds import Pidfds
    from npudoctor.host.resources import Resources
    from npudoctor.knowledge.site import Knowledge

T = TypeVar("T")
# What the variables under examination do not change.
UNCHANGED = frozenset(
    "files running_files commands processes sysvipc sockets network records resources clock system knowledge"
    " libraries npus gpus".split()
)


class Host:
    """A machine: files, variables, commands, processes, IPC, sockets, interpreter, accelerators.

    Every part is made when it is first asked for and kept for the run; safe for parallel checks.
    Under --root (`options.root`) the parts of a running machine raise NotRunning. A fake host is
    this class with other parts, given by name.
    """

    def __init__(
        self,
        options: Optional[Options] = None,
        *,
        disk: Optional[Disk] = None,
        variables: Optional[Mapping[str, str]] = None,
        identity: Optional[Identity] = None,
        **parts: object,
    ) -> None:
        self.options = options or Options()
        self.identity = identity or current_identity()
        self.disk: Disk = disk or LocalDisk()
        self._caller = dict(os.environ if variables is None else variables)
        self._parts: dict[str, object] = dict(parts)
        self._given = parts
        self._lock = threading.Lock()
        self._making: dict[str, Once[object]] = {}
        self._facts: dict[str, Once[object]] = {}
        self._later: list[Host] = []

    @property
    def files(self) -> Files:
        """The files below "/" or below --root."""
        return self._part("files", lambda: Files(self.disk, self.options.root or "/"))

    @property
    def running_files(self) -> Files:
        """The files of the running machine: /proc, /sys, /dev."""
        return self._live("running_files", lambda: Files(self.disk) if self.options.root else self.files)

    @property
    def variables(self) -> Variables:
        """The environment variables under examination."""
        return self._live("variables", lambda: Variables(self._caller))

    @property
    def commands(self) -> Commands:
        """The programs of the running machine."""
        return self._live("commands", self._make_commands)

    @property
    def processes(self) -> Processes:
        """The processes of the running machine."""
        return self._live("processes", lambda: Processes(self.disk, ticks_per_second(), pid_exists))

    @property
    def pidfds(self) -> Pidfds:
        """Descriptors of the processes of the running machine."""
        return self._live("pidfds", _open_pidfds)

    @property
    def sysvipc(self) -> SysVIPC:
        """The System V IPC objects of our namespace."""
        return self._live("sysvipc", lambda: SysVIPC(self.disk))

    @property
    def sockets(self) -> Sockets:
        """The sockets of our network namespace."""
        return self._live("sockets", lambda: Sockets(self.disk, interface_addresses))

    @property
    def network(self) -> Network:
        """The interfaces of our network namespace, and the ways out of it."""
        return self._live("network", _open_network)

    @property
    def names(self) -> Names:
        """What host names mean on the running machine."""
        return self._live("names", lambda: _names_of(self))

    @property
    def records(self) -> Records:
        """What earlier runs of `fix` wrote down before they acted."""
        return self._live("records", lambda: Records.of(self.identity, self._caller))

    @property
    def resources(self) -> Resources:
        """Memory, CPUs and limits of the running machine."""
        return self._live("resources", _open_resources)

    @property
    def clock(self) -> Clock:
        """The time, and the one wait that all second looks share."""
        return self._part("clock", Clock)

    @property
    def system(self) -> System:
        """The kernel, the boot, the namespaces, the distribution."""
        return self._part("system", lambda: System(self.disk, self.files, self.clock))

    @property
    def interpreter(self) -> Interpreter:
        """The Python that will run the job."""
        return self._part("interpreter", self._choose_interpreter)

    @property
    def knowledge(self) -> Knowledge:
        """The tables of what goes with what, with the rows of the machine that we run on."""
        return self._part("knowledge", self._open_tables)

    @property
    def libraries(self) -> Libraries:
        """What the shared libraries below the root say of themselves."""
        return self._part("libraries", lambda: Libraries(self.files))

    @property
    def npus(self) -> Accelerators:
        """The Ascend NPUs of the running machine."""
        return self._live("npus", lambda: find_npus(self.running_files))

    @property
    def gpus(self) -> Accelerators:
        """The NVIDIA GPUs of the running machine."""
        return self._live("gpus", lambda: find_gpus(self.running_files))

    @property
    def hccn(self) -> Hccn:
        """What hccn_tool says of the NPUs' network ports; each question is asked once for all checks."""
        return self._live("hccn", self._make_hccn)

    @property
    def npu_smi(self) -> NpuSmi:
        """What npu-smi answers; each question is asked once for all checks."""
        return self._live("npu_smi", self._make_npu_smi)

    def npu_wanted(self) -> bool:
        """Whether a job here would use NPUs: expected by the user, or found when nothing was said."""
        if self.options.expect == "auto":
            return self.npus.usable
        return self.options.expect == "npu"

    def once(self, name: str, make: Callable[[], T]) -> T:
        """A fact that several checks ask for: found out by the first and kept, a CannotTell too."""
        with self._lock:
            fact = self._facts.setdefault(name, Once(make))
        return fact()  # type: ignore[return-value]

    def again(self) -> Host:
        """The same machine with nothing looked at yet: for asking once more."""
        records = self._given.get("records")  # ours, also where another's variables are examined
        own = {"records": records.again()} if isinstance(records, Records) else {}
        again = Host(self.options, disk=self.disk, variables=self._caller, identity=self.identity, **own)
        self._later.append(again)
        return again

    def with_variables(self, variables: Mapping[str, str]) -> Host:
        """The same machine under other variables; what was looked at and does not hang on them is kept."""
        kept = {
            name: part
            for name, part in self._parts.items()
            if name in UNCHANGED or self._given.get(name) is part
        }
        other = Host(self.options, disk=self.disk, variables=variables, identity=self.identity, **kept)
        self._later.append(other)
        return other

    def close(self) -> None:
        """End what the host started; programs and children that hang are left behind."""
        commands = self._parts.get("commands")
        if isinstance(commands, Commands):
            commands.close()
        for again in self._later:
            again.close()
        self.disk.close()

    def _part(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._parts:
            with self._lock:  # only to note that it is being made: one part must not wait for another
                making = self._making.setdefault(name, Once(make))
            self._parts[name] = making()
        return self._parts[name]  # type: ignore[return-value]

    def _live(self, name: str, make: Callable[[], T]) -> T:
        if self.options.root is not None:
            raise NotRunning()
        return self._part(name, make)

    def _make_commands(self) -> Commands:
        return Commands(
            self.files,
            as_root=self.identity.is_root,
            may_block=self.disk.may_block,
            variables=self._caller,
        )

    def _make_hccn(self) -> Hccn:
        from npudoctor.host.devices.hccn import Hccn

        return Hccn(self.files, self.commands, lambda: self.npus, self.options.timeout)

    def _make_npu_smi(self) -> NpuSmi:
        from npudoctor.host.devices.npu_smi import NpuSmi

        return NpuSmi(
            self.files,
            self.commands,
            path=lambda: () if self.options.foreign_variables else self.variables.path_list("PATH"),
            processes=lambda: Processes(self.disk, self.processes.ticks, pid_exists),
            timeout=self.options.timeout,
        )

    def _open_tables(self) -> Knowledge:
        from npudoctor.knowledge.site import Knowledge

        return Knowledge(self.options.knowledge, self._why_remote)

    def _why_remote(self, path: str) -> Optional[str]:
        """Why a path of the machine that we run on is not opened by ourselves."""
        try:
            real = Files(self.disk).real(path)
        except CannotTell as error:
            return error.reason
        if real is not None and self.disk.may_block(real):
            return _("{path} is on a file system that may hang", path=path)
        return None

    def _choose_interpreter(self) -> Interpreter:
        image = self.options.root is not None
        caller = Variables({} if image else self._caller)
        path, chosen_by = self._which_python(caller)
        chosen = self._interpreter_at(path, chosen_by, caller)
        if chosen_by != "path" or image or self.options.env_of or not self.options.own_python:
            return chosen
        from npudoctor.host.python.own import own_instead_of

        own = own_instead_of(self.files, chosen)
        return chosen if own is None else self._interpreter_at(own, "own", caller, instead_of=path)

    def _interpreter_at(
        self, path: str, chosen_by: str, caller: Variables, instead_of: Optional[str] = None
    ) -> Interpreter:
        image = self.options.root is not None
        return Interpreter(
            path,
            chosen_by,
            instead_of=instead_of,
            files=self.files,
            commands=None if image or self.options.foreign_variables else self.commands,
            variables=caller,
            as_root=self.identity.is_root,
            timeout=0.6 * self.options.timeout,
            here=self._working_directory,
        )

    def _working_directory(self) -> Optional[str]:
        return self.running_files.real(f"/proc/{self.options.env_of or 'self'}/cwd")

    def _which_python(self, caller: Variables) -> tuple[str, str]:
        if self.options.python is not None:
            return self.options.python, "option"
        if self.options.root is not None:
            paths = ("/usr/local/bin/python3", "/usr/bin/python3")
            return next((path for path in paths if self._runnable(path)), paths[-1]), "path"
        for folder in caller.path_list("PATH"):
            path = f"{folder.rstrip('/')}/python3"
            if folder.startswith("/") and self._runnable(path):
                return path, "path"
        import sys

        return sys.executable, "own"

    def _runnable(self, path: str) -> bool:
        try:
            entry = self.files.stat(path)
        except CannotTell:
            return False
        return entry is not None and entry.is_program


def _open_network() -> Network:
    from npudoctor.host.network.network import Network  # only the checks that ask for it pay for it

    return Network()


def _open_resources() -> Resources:
    from npudoctor.host.resources import Resources  # as above

    return Resources()


def _open_pidfds() -> Pidfds:
    from npudoctor.host.process.pidfds import Pidfds  # for a fix that ends processes

    return Pidfds()


def _names_of(host: Host) -> Names:
    """With all that the job names: several names that nobody answers cost the time of one."""
    from npudoctor.core.addresses import ip_address
    from npudoctor.host.network.names import RENDEZVOUS, SECONDS, SHARE, Names, ask_system

    seconds = min(SECONDS, SHARE * host.options.timeout)
    places = (*host.options.peers, *(host.variables.get(name, "") for name in RENDEZVOUS))
    together = (place for place in places if place and not ip_address(place))
    return Names(lambda names: ask_system(names, seconds), together)
