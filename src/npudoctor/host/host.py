"""The machine under examination as one object: every question about it is asked here, and only once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable, Generic, Optional, TypeVar

from npudoctor.core.errors import CannotTell, NotRunning, Silent
from npudoctor.core.once import Once
from npudoctor.host.clock import Clock
from npudoctor.host.devices.accelerators import find_accelerators
from npudoctor.host.fs.files import Disk, Files, LocalDisk
from npudoctor.host.options import Options as Options
from npudoctor.host.process.commands import Commands
from npudoctor.host.process.processes import Processes, pid_exists, ticks_per_second
from npudoctor.host.python.interpreter import Interpreter
from npudoctor.host.python.own_python import own_instead_of
from npudoctor.host.records import Records
from npudoctor.host.system import System
from npudoctor.host.users.identity import Identity, current_identity
from npudoctor.host.variables import Variables

if TYPE_CHECKING:
    from npudoctor.host.devices.hccn import Hccn
    from npudoctor.host.devices.npu_smi import NpuSmi
    from npudoctor.host.libraries.library import Libraries
    from npudoctor.host.network.names import Names
    from npudoctor.host.network.network import Network
    from npudoctor.host.network.sockets import Sockets
    from npudoctor.host.process.pidfds import Pidfds
    from npudoctor.host.process.sysvipc import SysVIPC
    from npudoctor.host.resources import Resources
    from npudoctor.knowledge.site import Knowledge
    from npudoctor.trial.trials import Trials

T = TypeVar("T")
# What the variables under examination do not change.
UNCHANGED = frozenset(
    "files running_files commands processes sysvipc sockets network records resources clock system knowledge"
    " libraries npus gpus".split()
)


class _Part(Generic[T]):
    """A part of a running machine: made when it is first asked for, and kept for the run. NotRunning under
    --root. Where only some checks pay for its module, it decorates the function that loads it."""

    image_too = False

    def __init__(self, make: Callable[[Host], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, host: Host, owner: type) -> T:
        if host.options.root is not None and not self.image_too:
            raise NotRunning()
        if self._name not in host._parts:
            with host._lock:  # only to note that it is being made: one part must not wait for another
                making = host._making.setdefault(self._name, Once(lambda: self._make(host)))
            host._parts[self._name] = making()
        return host._parts[self._name]  # type: ignore[return-value]


class _ImagePart(_Part[T]):
    """A part that an image has, too."""

    image_too = True


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

    files = _ImagePart(lambda host: Files(host.disk, host.options.root or "/"))
    """The files below "/" or below --root."""

    running_files = _Part(lambda host: Files(host.disk) if host.options.root else host.files)
    """The files of the running machine: /proc, /sys, /dev."""

    variables = _Part(lambda host: Variables(host._caller))
    """The environment variables under examination."""

    commands = _Part(
        lambda host: Commands(
            host.files,
            # Root of a user namespace with nobody else is an ordinary user, and "/" is a stranger's there.
            as_root=host.identity.is_root and not _is_alone(host),
            may_block=host.disk.may_block,
            variables=host._caller,
        )
    )
    """The programs of the running machine."""

    processes = _Part(lambda host: Processes(host.disk, ticks_per_second(), pid_exists))
    """The processes of the running machine."""

    @_Part
    def pidfds(self) -> Pidfds:
        """Descriptors of the processes of the running machine."""
        from npudoctor.host.process.pidfds import Pidfds

        return Pidfds()

    @_Part
    def sysvipc(self) -> SysVIPC:
        """The System V IPC objects of our namespace."""
        from npudoctor.host.process.sysvipc import SysVIPC

        return SysVIPC(self.disk)

    @_Part
    def sockets(self) -> Sockets:
        """The sockets of our network namespace."""
        from npudoctor.host.network.interfaces import interface_addresses
        from npudoctor.host.network.sockets import Sockets

        return Sockets(self.disk, interface_addresses)

    @_Part
    def network(self) -> Network:
        """The interfaces of our network namespace, and the ways out of it."""
        from npudoctor.host.network.network import Network

        return Network()

    @_Part
    def names(self) -> Names:
        """What host names mean on the running machine."""
        from npudoctor.core.addresses import ip_address
        from npudoctor.host.network.names import RENDEZVOUS, SECONDS, SHARE, Names, ask_system

        seconds = min(SECONDS, SHARE * self.options.timeout)
        # With all that the job names: several names that nobody answers cost the time of one.
        places = (*self.options.peers, *(self.variables.get(name, "") for name in RENDEZVOUS))
        together = (place for place in places if place and not ip_address(place))
        return Names(lambda names: ask_system(names, seconds), together)

    @_Part
    def trials(self) -> Trials:
        """What the kernel says when it is asked as the job would ask it."""
        from npudoctor.host.process.job_start import job_variables, why_not_tried
        from npudoctor.host.process.rights import numbered
        from npudoctor.trial.trials import OUTPUT_LIMIT, Trials

        return Trials(
            start=lambda argv, seconds: self.commands.run(
                argv,
                timeout=seconds,
                limit=OUTPUT_LIMIT,
                variables=job_variables(self.variables, self.options),
                here=self.options.as_user is None and not self.options.env_of,
                group=True,
                user=self.options.as_user,
                limits=self._examined_limits(),
            ),
            folder=self._job_folder,
            silent=self._silent_at_start,
            limits=lambda: numbered(self._examined_limits()),
            why_not=lambda: why_not_tried(self.options, self.identity.is_root, self.disk),
            program=lambda: self.interpreter.program,
            until=self.options.until,
        )

    def _silent_at_start(self) -> str:
        """Why a Python of the job may wait before its first line: of the folders that it looks into, one
        gives no answer."""
        home = self.variables.get("HOME", "")
        for path in (home, *self.variables.path_list("PYTHONPATH"), self.interpreter.program):
            try:
                if path.startswith("/"):
                    self.running_files.stat(path)
            except Silent as error:
                return error.reason
            except CannotTell:
                continue
        return ""

    def _job_folder(self) -> Optional[str]:
        """Where the job starts, for a child that is not started there: root enters no folder for another
        user, and itself none that may be a stranger's."""
        user, pid = self.options.as_user, self.options.env_of
        if user is None and not pid:
            return None
        if user is not None and not user.uid:
            return None
        return self.running_files.real(f"/proc/{pid or 'self'}/cwd")

    def _examined_limits(self) -> Mapping[str, tuple[Optional[int], Optional[int]]]:
        """The limits of the process of --env-of, soft and hard; none without it: those are inherited."""
        if not self.options.env_of:
            return {}
        limits = self.resources.limits(self.options.env_of)
        return {name: (limit.soft, limit.hard) for name, limit in limits.items()}

    records = _Part(lambda host: Records.of(host.identity, host._caller))
    """What earlier runs of `fix` wrote down before they acted."""

    @_Part
    def resources(self) -> Resources:
        """Memory, CPUs and limits of the running machine."""
        from npudoctor.host.resources import Resources

        return Resources()

    clock = _ImagePart(lambda host: Clock())
    """The time, and the one wait that all second looks share."""

    system = _ImagePart(lambda host: System(host.disk, host.files, host.clock))
    """The kernel, the boot, the namespaces, the distribution."""

    interpreter = _ImagePart(lambda host: host._choose_interpreter())
    """The Python that will run the job."""

    @_ImagePart
    def knowledge(self) -> Knowledge:
        """The tables of what goes with what, with the rows of the machine that we run on."""
        from npudoctor.knowledge.site import Knowledge

        return Knowledge(self.options.knowledge, Files(self.disk).why_remote)

    @_ImagePart
    def libraries(self) -> Libraries:
        """What the shared libraries below the root say of themselves."""
        from npudoctor.host.libraries.library import Libraries

        return Libraries(self.files)

    npus = _Part(lambda host: find_accelerators("npu", host.running_files))
    """The Ascend NPUs of the running machine."""

    gpus = _Part(lambda host: find_accelerators("gpu", host.running_files))
    """The NVIDIA GPUs of the running machine."""

    @_Part
    def hccn(self) -> Hccn:
        """What hccn_tool says of the NPUs' network ports; each question is asked once for all checks."""
        from npudoctor.host.devices.hccn import Hccn

        return Hccn(self.files, self.commands, lambda: self.npus, self.options.timeout)

    @_Part
    def npu_smi(self) -> NpuSmi:
        """What npu-smi answers; each question is asked once for all checks."""
        from npudoctor.host.devices.npu_smi import NpuSmi

        return NpuSmi(
            self.files,
            self.commands,
            path=lambda: () if self.options.foreign_variables else self.variables.path_list("PATH"),
            processes=lambda: Processes(self.disk, self.processes.ticks, pid_exists),
            timeout=self.options.timeout,
        )

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

    def _choose_interpreter(self) -> Interpreter:
        """By --python, else python3 of the caller's PATH, of an image's system, or our own."""
        image = self.options.root is not None
        caller = Variables({} if image else self._caller)
        if self.options.python is not None:
            return self._interpreter_at(self.options.python, "option", caller)
        if image:
            paths = ["/usr/local/bin/python3", "/usr/bin/python3"]
        else:
            paths = [
                f"{folder.rstrip('/')}/python3" for folder in caller.path_list("PATH") if folder[:1] == "/"
            ]
        for path in paths:
            try:
                entry = self.files.stat(path)
            except CannotTell as error:
                if isinstance(error.__cause__, PermissionError):
                    continue
                break  # nobody can tell whether the job's Python is in there: its server is gone, or silent
            if entry is not None and entry.is_program:
                break
        else:
            if not image:
                return self._interpreter_at(sys.executable, "own", caller)
            path = paths[-1]
        chosen = self._interpreter_at(path, "path", caller)
        if image or self.options.env_of or not self.options.own_python:
            return chosen
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
            here=lambda: self.running_files.real(f"/proc/{self.options.env_of or 'self'}/cwd"),
        )


def _is_alone(host: Host) -> bool:
    """Whether root is the only user of its user namespace."""
    if not host.identity.is_root:
        return False
    from npudoctor.host.process.job_start import is_mapped

    return is_mapped(host.disk, alone=True)
