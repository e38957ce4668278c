"""Asks hccn_tool about the network port of each NPU, once for all checks and in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.threads import share_work
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.host.devices.driver import package_folders
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import FOLDERS, CommandResult, Commands

NAME = "hccn_tool"
NODE = "/dev/davinci"
QUESTIONS = ("ip", "link", "net_health", "netdetect", "gateway", "tls", "mtu")
MAX_PARALLEL = 8  # devices at the same time; the questions about one device follow each other
SHARE_OF_ONE, SHARE_OF_ALL = 0.4, 0.85  # of the time of a check: for one answer, for all of them
MAX_OUTPUT_BYTES = 64 << 10

TOLD, UNSET, REFUSED, STRANGE, HUNG, NOT_RUN, NOT_ASKED = (
    "told", "unset", "refused", "strange", "hung", "not-run", "not-asked"
)  # fmt: skip
# The words before the colon in the answer to each question, and our name for the value.
_WORDS = {
    "ip": {"ipaddr": "address", "netmask": "netmask"},
    "link": {"link status": "link"},
    "net_health": {"net health status": "health"},
    "netdetect": {"netdetect address": "netdetect", "netdetect addr": "netdetect"},
    "gateway": {"default gateway": "gateway"},
    "tls": {},
    "mtu": {"mtu": "mtu"},
}
_MAY_BE_UNSET = ("ip", "netdetect", "gateway")
_NOT_PRESET = "preset there"  # "Get ipconf failed, because no ip was preset there!"


@dataclass(frozen=True)
class Reply:
    """The answer to one question. `kind`: TOLD (with `values`), UNSET (there is no such setting), REFUSED (a
    failure), STRANGE (an unknown text), HUNG, NOT_RUN, NOT_ASKED (no time, or an earlier question hung)."""

    kind: str
    values: Mapping[str, str]
    answer: Optional[CommandResult] = None


@dataclass(frozen=True)
class Port:
    """The network port of one NPU, by its physical id."""

    device: int
    replies: Mapping[str, Reply]

    def get(self, name: str) -> str:
        """One value, such as "address", "link", "tls"; "" if there is none."""
        return next((reply.values[name] for reply in self.replies.values() if name in reply.values), "")


def parse_answer(question: str, text: str) -> dict[str, str]:
    """Parse the answer to a question into values by our names; empty if it has none that we know."""
    if question == "tls":
        head, _found, tail = text.partition("tls switch[")
        value = tail.partition("]")[0]
        return {"tls": value} if head != text and value in ("0", "1") else {}
    values: dict[str, str] = {}
    for line in text.splitlines():
        words, colon, value = line.partition(":")
        name = _WORDS[question].get(words.strip().lower())
        value = value.partition(",")[0].strip()
        if not (colon and name and value):
            continue
        if name in ("link", "health"):
            is_sound = len(value) < 32 and value.replace(" ", "").isalpha() and value.isascii()
        elif name == "mtu":
            is_sound = len(value) < 6 and value.isdecimal() and value.isascii()
        else:
            is_sound = all(letter in "0123456789abcdefABCDEF.:" for letter in value)
        if is_sound:
            values.setdefault(name, value)
    return values


def classify_answer(question: str, answer: CommandResult) -> Reply:
    """Classify an answer. Not by the exit status alone: hccn_tool also prints failures with status 0."""
    if answer.ended == "timeout":
        return Reply(HUNG, {}, answer)
    if answer.ended not in ("exited", "flooded"):
        return Reply(NOT_RUN, {}, answer)
    values = parse_answer(question, answer.stdout)
    if values:
        is_unset = values.get("netdetect") == "0.0.0.0"  # noqa: S104
        return Reply(UNSET, {}, answer) if is_unset else Reply(TOLD, values, answer)
    text = (answer.stdout + answer.stderr).strip()
    if question in _MAY_BE_UNSET and answer.ended == "exited" and (not text or _NOT_PRESET in text):
        return Reply(UNSET, {}, answer)
    is_refused = answer.ended == "exited" and answer.status != 0
    return Reply(REFUSED if is_refused else STRANGE, {}, answer)


class Hccn:
    """hccn_tool of the running machine. Thread-safe: the first check runs it, others wait for the result.

    `timeout`: of one check, in seconds.
    """

    def __init__(
        self, files: Files, commands: Commands, npus: Callable[[], Accelerators], timeout: float
    ) -> None:
        self._files, self._commands = files, commands
        self._npus, self._timeout = npus, timeout
        self._lock = threading.Lock()
        self._ports: Optional[list[Port]] = None

    def devices(self) -> list[int]:
        """The physical ids of the NPUs that have a device node, in order."""
        nodes = (node[len(NODE) :] for node in self._npus().nodes if node.startswith(NODE))
        return sorted(int(number) for number in nodes)

    def find_program(self) -> Optional[str]:
        """The path of the tool in the driver's folder, else in the system's; None if there is none."""
        for folder in package_folders(self._files, "driver"):
            path = f"{folder}/tools/{NAME}"
            try:
                entry = self._files.stat(path)
            except CannotTell:
                return path  # the folder may not be entered: starting the tool will say so
            if entry is not None and entry.is_file:
                return path
        return self._commands.find(NAME)

    def ports(self) -> list[Port]:
        """All answers about all devices, in the order of their ids."""
        with self._lock:
            if self._ports is not None:
                return self._ports
            devices, program = self.devices(), self.find_program() or NAME
            until = time.monotonic() + SHARE_OF_ALL * self._timeout
            variables = self._environment()
            ports: dict[int, Port] = {}
            devices_left = list(reversed(devices))

            def work() -> None:
                while devices_left:
                    try:
                        device = devices_left.pop()
                    except IndexError:  # another one was faster
                        return
                    ports[device] = Port(device, self._ask_all(program, device, until, variables))

            share_work(work, min(MAX_PARALLEL, len(devices)))
            self._ports = [ports[device] for device in devices if device in ports]
            return self._ports

    def _ask_all(
        self, program: str, device: int, until: float, variables: Mapping[str, str]
    ) -> dict[str, Reply]:
        """Ask all questions about one device; after one that hung no other, which would hang too."""
        replies: dict[str, Reply] = {}
        for question in QUESTIONS:
            seconds_left = until - time.monotonic()
            # So little is not enough to start the tool; and a device that hung once hangs again.
            if seconds_left < 0.1 or any(reply.kind == HUNG for reply in replies.values()):
                replies[question] = Reply(NOT_ASKED, {})
                continue
            answer = self._commands.run(
                (program, "-i", str(device), f"-{question}", "-g"),
                timeout=min(seconds_left, SHARE_OF_ONE * self._timeout),
                limit=MAX_OUTPUT_BYTES,
                variables=variables,
            )
            replies[question] = classify_answer(question, answer)
        return replies

    def _environment(self) -> dict[str, str]:
        """A small environment with the driver's libraries; for root only those that nobody else can write."""
        libraries = []
        for folder in package_folders(self._files, "driver"):
            for part in ("lib64/common", "lib64/driver", "lib64"):
                path = f"{folder}/{part}"
                if self._files.stat(path) and self._commands.may_load_from(path):
                    libraries.append(path)
        clean = {"PATH": self._commands.join_trusted(FOLDERS), "LC_ALL": "C"}
        return {**clean, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else clean
