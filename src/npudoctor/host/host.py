"""The examined machine as one object: every part of it is made here, when it is first used, and kept."""

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
from npudoctor.host.python.own_python import choose_own_python
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
# Parts that do not depend on the examined variables.
INDEPENDENT_OF_VARIABLES = frozenset(
    "files running_files commands processes sysvipc sockets network records resources clock system knowledge"
    " libraries npus gpus".split()
)


class _HostPart(Generic[T]):
    """A part of a running machine, as a descriptor: made when it is first read, and kept for the run.

    Under --root reading it raises NotRunning. As a decorator it stands for a function that also imports the
    part's module, so that only checks that use the part pay for the import.
    """

    image_too = False

    def __init__(self, make: Callable[[Host], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, host: Host, owner: type) -> T:
        if host.options.root is not None and not self.image_too:
            raise NotRunning()
        if self._name not in host._parts:
            # The lock is held only while the Once is stored, not while the part is made: two checks may make
            # different parts at once, and a part may use other parts.
            with host._lock:
                making = host._once_by_part.setdefault(self._name, Once(lambda: self._make(host)))
            host._parts[self._name] = making()
        return host._parts[self._name]  # type: ignore[return-value]


class _ImagePart(_HostPart[T]):
    """A part that an image of --root has, too."""

    image_too = True


class Host:
    """A machine: files, variables, commands, processes, IPC, sockets, interpreter, accelerators.

    Every part is made when it is first read, and kept for the run; checks in parallel may share a Host.
    Under --root (`options.root`) the parts of a running machine raise NotRunning. `parts` replace parts by
    name: so tests make a fake machine.
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
        self._caller_variables = dict(os.environ if variables is None else variables)
        self._parts: dict[str, object] = dict(parts)
        self._replaced_parts = parts
        self._lock = threading.Lock()
        self._once_by_part: dict[str, Once[object]] = {}
        self._once_by_fact: dict[str, Once[object]] = {}
        self._derived_hosts: list[Host] = []

    files = _ImagePart(lambda host: Files(host.disk, host.options.root or "/"))
    """The files below "/" or below --root."""

    running_files = _HostPart(lambda host: Files(host.disk) if host.options.root else host.files)
    """The files of the running machine: /proc, /sys, /dev."""

    variables = _HostPart(lambda host: Variables(host._caller_variables))
    """The environment variables under examination."""

    commands = _HostPart(
        lambda host: Commands(
            host.files,
            # In a user namespace that maps only root, uid 0 is an ordinary user outside, and "/" belongs to
            # an unmapped user: the rules for root would trust nothing.
            as_root=host.identity.is_root and not _is_only_user(host),
            may_block=host.disk.may_block,
            variables=host._caller_variables,
        )
    )
    """The programs of the running machine."""

    processes = _HostPart(lambda host: Processes(host.disk, ticks_per_second(), pid_exists))
    """The processes of the running machine."""

    @_HostPart
    def pidfds(self) -> Pidfds:
        """Descriptors of the processes of the running machine."""
        from npudoctor.host.process.pidfds import Pidfds

        return Pidfds()

    @_HostPart
    def sysvipc(self) -> SysVIPC:
        """The System V IPC objects of our namespace."""
        from npudoctor.host.process.sysvipc import SysVIPC

        return SysVIPC(self.disk)

    @_HostPart
    def sockets(self) -> Sockets:
        """The sockets of our network namespace."""
        from npudoctor.host.network.interfaces import interface_addresses
        from npudoctor.host.network.sockets import Sockets

        return Sockets(self.disk, interface_addresses)

    @_HostPart
    def network(self) -> Network:
        """The interfaces of our network namespace, and the ways out of it."""
        from npudoctor.host.network.network import Network

        return Network()

    @_HostPart
    def names(self) -> Names:
        """The addresses of host names, as the running machine resolves them."""
        from npudoctor.core.addresses import ip_address
        from npudoctor.host.network.names import RENDEZVOUS, SECONDS, SHARE_OF_TIMEOUT, Names, ask_system

        seconds = min(SECONDS, SHARE_OF_TIMEOUT * self.options.timeout)
        # All names of the job are resolved at once: several that get no answer cost the time of one.
        rendezvous_values = (*self.options.peers, *(self.variables.get(name, "") for name in RENDEZVOUS))
        names_of_job = (place for place in rendezvous_values if place and not ip_address(place))
        return Names(lambda names: ask_system(names, seconds), names_of_job)

    @_HostPart
    def trials(self) -> Trials:
        """Trials: children that ask the kernel what the job would ask it."""
        from npudoctor.host.process.job_start import job_variables, why_not_tried
        from npudoctor.host.process.rights import rlimit_rows
        from npudoctor.trial.trials import OUTPUT_LIMIT, Trials

        return Trials(
            start=lambda argv, seconds: self.commands.run(
                argv,
                timeout=seconds,
                limit=OUTPUT_LIMIT,
                variables=job_variables(self.variables, self.options),
                in_working_directory=self.options.as_user is None and not self.options.env_of,
                group=True,
                user=self.options.as_user,
                limits=self._examined_limits(),
            ),
            folder=self._job_folder,
            silent=self._reason_start_may_hang,
            limits=lambda: rlimit_rows(self._examined_limits()),
            why_not=lambda: why_not_tried(self.options, self.identity.is_root, self.disk),
            program=lambda: self.interpreter.program,
            until=self.options.until,
        )

    def _reason_start_may_hang(self) -> str:
        """Why Python may hang while it starts: a folder that it looks into does not answer; "" if all do."""
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
        """The folder in which the job starts, if a child is not started there itself; None if it is.

        Root does not enter a folder on behalf of another user, nor one that may be a stranger's.
        """
        user, pid = self.options.as_user, self.options.env_of
        if user is None and not pid:
            return None
        if user is not None and not user.uid:
            return None
        return self.running_files.real(f"/proc/{pid or 'self'}/cwd")

    def _examined_limits(self) -> Mapping[str, tuple[Optional[int], Optional[int]]]:
        """The soft and hard limits of the process of --env-of; empty without it, as a child inherits ours."""
        if not self.options.env_of:
            return {}
        limits = self.resources.limits(self.options.env_of)
        return {name: (limit.soft, limit.hard) for name, limit in limits.items()}

    records = _HostPart(lambda host: Records.for_identity(host.identity, host._caller_variables))
    """The journals of earlier runs of `fix`."""

    @_HostPart
    def resources(self) -> Resources:
        """Memory, CPUs and limits of the running machine."""
        from npudoctor.host.resources import Resources

        return Resources()

    clock = _ImagePart(lambda host: Clock())
    """The clocks, and the one wait that all second looks share."""

    system = _ImagePart(lambda host: System(host.disk, host.files, host.clock))
    """The kernel, the boot, the namespaces, the distribution."""

    interpreter = _ImagePart(lambda host: host._choose_interpreter())
    """The Python that will run the job."""

    @_ImagePart
    def knowledge(self) -> Knowledge:
        """The tables of compatible versions, with the site's rows on the machine that we run on."""
        from npudoctor.knowledge.site import Knowledge

        return Knowledge(self.options.knowledge, Files(self.disk).why_remote)

    @_ImagePart
    def libraries(self) -> Libraries:
        """The shared libraries below the root, as their ELF headers describe them."""
        from npudoctor.host.libraries.library import Libraries

        return Libraries(self.files)

    npus = _HostPart(lambda host: find_accelerators("npu", host.running_files))
    """The Ascend NPUs of the running machine."""

    gpus = _HostPart(lambda host: find_accelerators("gpu", host.running_files))
    """The NVIDIA GPUs of the running machine."""

    @_HostPart
    def hccn(self) -> Hccn:
        """The NPUs' network ports by hccn_tool; each question is asked once for all checks."""
        from npudoctor.host.devices.hccn import Hccn

        return Hccn(self.files, self.commands, lambda: self.npus, self.options.timeout)

    @_HostPart
    def npu_smi(self) -> NpuSmi:
        """The NPUs by npu-smi; each question is asked once for all checks."""
        from npudoctor.host.devices.npu_smi import NpuSmi

        return NpuSmi(
            self.files,
            self.commands,
            path=lambda: () if self.options.foreign_variables else self.variables.path_list("PATH"),
            processes=lambda: Processes(self.disk, self.processes.ticks, pid_exists),
            timeout=self.options.timeout,
        )

    def wants_npus(self) -> bool:
        """Whether a job here would use NPUs: --expect says so, or with `auto` the machine has some."""
        if self.options.expect == "auto":
            return self.npus.is_usable
        return self.options.expect == "npu"

    def once(self, name: str, make: Callable[[], T]) -> T:
        """A fact that several checks need: `make` is called once, and its result or CannotTell is kept."""
        with self._lock:
            fact = self._once_by_fact.setdefault(name, Once(make))
        return fact()  # type: ignore[return-value]

    def fresh_copy(self) -> Host:
        """The same machine without anything kept, to look at it once more, as `fix` does after a step."""
        # Records may be those of our own user although the variables are another process's.
        records = self._replaced_parts.get("records")
        own_parts = {"records": records.unread_copy()} if isinstance(records, Records) else {}
        fresh_host = Host(
            self.options,
            disk=self.disk,
            variables=self._caller_variables,
            identity=self.identity,
            **own_parts,
        )
        self._derived_hosts.append(fresh_host)
        return fresh_host

    def with_variables(self, variables: Mapping[str, str]) -> Host:
        """The same machine with other variables; parts that do not depend on them are shared."""
        kept_parts = {
            name: part
            for name, part in self._parts.items()
            if name in INDEPENDENT_OF_VARIABLES or self._replaced_parts.get(name) is part
        }
        derived_host = Host(
            self.options, disk=self.disk, variables=variables, identity=self.identity, **kept_parts
        )
        self._derived_hosts.append(derived_host)
        return derived_host

    def close(self) -> None:
        """End the processes that the host started; those that hang in the kernel are left behind."""
        commands = self._parts.get("commands")
        if isinstance(commands, Commands):
            commands.close()
        for derived_host in self._derived_hosts:
            derived_host.close()
        self.disk.close()

    def _choose_interpreter(self) -> Interpreter:
        """The Python of --python, else python3 of the caller's PATH or of the image, else our own."""
        image = self.options.root is not None
        caller = Variables({} if image else self._caller_variables)
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
                break  # its file server is gone or silent: this may be the job's Python, none after it is
            if entry is not None and entry.is_program:
                break
        else:
            if not image:
                return self._interpreter_at(sys.executable, "own", caller)
            path = paths[-1]
        chosen = self._interpreter_at(path, "path", caller)
        if image or self.options.env_of or not self.options.own_python:
            return chosen
        own_python = choose_own_python(self.files, chosen)
        return (
            chosen if own_python is None else self._interpreter_at(own_python, "own", caller, instead_of=path)
        )

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
            read_working_folder=lambda: self.running_files.real(f"/proc/{self.options.env_of or 'self'}/cwd"),
        )


def _is_only_user(host: Host) -> bool:
    """Whether we are root in a user namespace that maps no other user."""
    if not host.identity.is_root:
        return False
    from npudoctor.host.process.job_start import is_mapped_root

    return is_mapped_root(host.disk, is_only_user=True)
