"""Parts of a fake machine with given answers: programs, a clock, processes, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.clock import Clock
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import CommandResult, Commands
from npudoctor.host.process.rights import Limits
from npudoctor.host.resources import Limit, Memory, Resources
from npudoctor.host.users.identity import Account
from npudoctor.testing.disk import Content, MemoryDisk, folder, link
from npudoctor.trial.trials import Trial, Trials

SITE = "/usr/lib/python3.11/site-packages"
# Ours on a fake machine: pid_max is never above it, so that no process of theirs is ever ourselves.
OUR_PID = 1 << 22
UPTIME = 30 * 86400.0  # seconds since boot, unless given
TICKS = 100  # of a second: the unit of `started` in process_files()


class FakeCommands(Commands):
    """Gives the given answers, by the whole argv or by the program's name alone; any other program is not
    found (127).
    """

    def __init__(
        self,
        answers: Mapping[Union[str, tuple[str, ...]], Union[str, CommandResult]],
        files: Optional[Files] = None,
        *,
        as_root: bool = False,
        variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(files or Files(MemoryDisk({})), as_root=as_root, variables=variables)
        self.asked: list[tuple[str, ...]] = []
        self._answers = dict(answers)
        self._variables = {}  # root's PATH is looked for here

    def find(self, name: str) -> Optional[str]:
        program_names = {key if isinstance(key, str) else key[0] for key in self._answers}
        return f"/usr/bin/{name}" if name in program_names else None

    def is_trusted(self, path: str) -> bool:
        return True

    def may_load_from(self, folder: str) -> bool:
        return True

    def why_untrusted(self, argv: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        return None

    def close(self) -> None:
        """Nothing runs."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 5.0,
        limit: int = 1 << 20,
        variables: Optional[Mapping[str, str]] = None,
        in_working_directory: bool = False,
        group: bool = False,
        farewell: Optional[int] = None,
        user: Optional[Account] = None,
        limits: Optional[Limits] = None,
    ) -> CommandResult:
        words = tuple(argv)
        self.asked.append(words)
        answer = self._answers.get(words, self._answers.get(words[0].rsplit("/", 1)[-1]))
        if answer is None:
            return CommandResult(words, "missing", 127)
        return CommandResult(words, "exited", 0, answer) if isinstance(answer, str) else answer


class FakeClock(Clock):
    """A clock that stands at `now` and jumps when asked to wait.

    `uptime`: seconds since the machine booted, at `now`; None for a real machine, whose processes began in
    its own time.
    """

    def __init__(
        self,
        now: float = 1_800_000_000.0,
        synchronised: Optional[bool] = True,
        uptime: Optional[float] = None,
    ) -> None:
        self.current = now
        self.uptime = uptime
        self.waited = 0.0
        self._synchronised = synchronised

    def is_synchronised(self) -> Optional[bool]:
        return self._synchronised

    def boot_time(self) -> float:
        return super().boot_time() if self.uptime is None else self.current - self.uptime

    def now(self) -> float:
        return self.current + self.waited

    def monotonic(self) -> float:
        return self.waited

    def wait_until(self, steady: float) -> None:
        self.waited = max(self.waited, steady)


def _no_psutil() -> CannotTell:
    """The error for a machine without psutil."""
    return CannotTell(_("psutil cannot be loaded: {why}", why="`No module named 'psutil'`"))


class FakeResources(Resources):
    """Memory, CPUs and limits as given, the same for each process; CannotTell for what is not given."""

    def __init__(
        self, memory: Optional[Memory] = None, cpus: int = 0, limits: Optional[Mapping[str, Limit]] = None
    ) -> None:
        self._memory, self._cpus, self._limits = memory, cpus, limits

    def memory(self) -> Memory:
        if self._memory is None:
            raise _no_psutil()
        return self._memory

    def cpus(self, pid: int) -> int:
        if not self._cpus:
            raise _no_psutil()
        return self._cpus

    def limits(self, pid: int) -> Mapping[str, Limit]:
        return self._limits or {}


def process_files(
    pid: int,
    name: str = "python3",
    *,
    argv: Sequence[str] = (),
    exe: str = "/usr/bin/python3",
    parent: int = 1,
    state: str = "S",
    uid: int = 0,
    started: int = 1000,
    descriptors: Optional[Mapping[int, str]] = None,
    maps: str = "",
) -> dict[str, Content]:
    """The /proc files of one process, for the disk of a fake host."""
    # Fields 10 to 21 of /proc/PID/stat (proc(5)); among them the times, so that it used no processor.
    rest = " ".join(["0"] * 12)
    files: dict[str, Content] = {
        f"/proc/{pid}": folder(0o555, uid),
        f"/proc/{pid}/stat": f"{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 0 {rest} {started} 0",
        f"/proc/{pid}/cmdline": "".join(f"{word}\0" for word in argv),
        f"/proc/{pid}/status": f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"/proc/{pid}/maps": maps,
        f"/proc/{pid}/exe": link(exe),
        f"/proc/{pid}/fd": folder(0o500, uid),
    }
    for number, target in (descriptors or {}).items():
        files[f"/proc/{pid}/fd/{number}"] = link(target)
    return files


def package_files(name: str, version: str, *headers: str, site: str = SITE) -> dict[str, Content]:
    """The metadata of a distribution; `headers` are whole lines such as "Requires-Dist: numpy"."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *headers]
    return {f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA": "\n".join(lines) + "\n"}


class FakeTrials(Trials):
    """Trials with given results, by part; in other parts nothing was refused. `asked`: the questions of each
    part.
    """

    def __init__(
        self, results: Mapping[str, Trial], why_not: Callable[[], Optional[str]] = lambda: None
    ) -> None:
        self._results, self._why_not = results, why_not
        self.asked: dict[str, dict[str, object]] = {}

    def try_part(self, part: str, **questions: object) -> Trial:
        self.asked[part] = questions
        return self._results.get(part, Trial())
