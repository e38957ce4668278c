"""Machines with NPUs whose npu-smi answers as real ones do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from tests.checks.device.test_device_nodes import nodes

from npudoctor.checking.check import Check
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Asked, Content, ask, fake_host

SCREENS = Path(__file__).parents[2] / "host" / "devices" / "npu_smi"
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}
INFO = ("npu-smi", "info")

LOADING = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
NO_DRIVER = LOADING + "dcmi module initialize failed. ret is -8005\n"
NO_RIGHTS = NO_DRIVER.replace("g_conLogLevel=3", "ret=4")
USED = LOADING + "dcmi model initialized failed, because the device is used. ret is -8020\n"
NO_LIBRARY = (
    "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file: "
    "No such file or directory\n"
)
NO_CARD = "There is no NPU card on this server.\n"
USAGE = """Invalid card id.
Error parameter of -i
Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]
"""
NOT_READY = "npu get board type failed. ret is -9005\n"
INCOMPLETE = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it.\n"
)


def screen(name: str) -> str:
    """One of the recorded screens."""
    return (SCREENS / f"{name}.txt").read_text()


def exited(text: str, status: int = 0, stderr: str = "") -> CommandResult:
    """The tool printed this and ended."""
    return CommandResult(INFO, "exited", status, text, stderr)


def health(npu: int, chip: int = 0) -> tuple[str, ...]:
    """How the tool is asked for the health of one chip."""
    return ("npu-smi", "info", "-t", "health", "-i", str(npu), "-c", str(chip))


def told(
    check: Check,
    answer: Union[str, CommandResult, None],
    *parts: Mapping[str, Content],
    count: int = 2,
    commands: Mapping[Any, Any] = {},
    **more: Any,
) -> Asked:
    """What a check says where npu-smi answers so; None: there is no npu-smi."""
    files = {path: content for part in (nodes(count), *parts) for path, content in part.items()}
    given: dict[Any, Any] = {} if answer is None else {INFO: answer}
    return ask(check, fake_host(files, commands={**given, **commands}, **more))
