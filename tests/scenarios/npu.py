"""What npu-smi and hccn_tool say on a machine: two idle chips, in the layout of the driver's time."""

from __future__ import annotations

from typing import Union

from npudoctor.host.process.commands import CommandResult

from .eras import Era

GROUP = 1002  # HwHiAiUser, to whom the device nodes belong
BAR = "+----------------------+---------------+----------------------------------------------------+"
END = BAR.replace("-", "=")
TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
CONF = "/etc/hccn.conf"


def screen(era: Era, *, health: str = "OK", used: int = 0, chips: int = 2, held: str = "") -> str:
    """The table; `health` and `used` are of the last chip, `held` is a line of the process table."""
    first = era.chip == "0xd801"
    lines = [
        "+" + "-" * 91 + "+",
        f"| npu-smi {era.driver:<23} Version: {era.driver:<48}|",
        BAR,
        "| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        END,
    ]
    for number in range(chips):
        last = number == chips - 1
        hbm = used if used and last else 2 if first else 3315
        name, word = "910A" if first else "910B2", health if last else "OK"
        memory = "839  / 15170      " if first else "0    / 0          "
        bus, total = f"0000:{number + 0x61:02X}:00.0", 32768 if first else 65536
        lines += [
            f"| {number:<5} {name:<14} | {word:<13} | 70.9        42                0    / 0             |",
            f"| 0                    | {bus}  | 0           {memory}{hbm:<5}/ {total}         |",
            END,
        ]
    lines += [
        BAR,
        "| NPU     Chip         | Process id    | Process name             | Process memory(MB)      |",
        END,
    ]
    return "\n".join([*lines, held or "| No running processes found in NPU 0 |", END]) + "\n"


def port(number: int, node: int = 0) -> str:
    """The address of the network port of an NPU."""
    return f"198.51.100.{10 * (node + 1) + number}"


def conf(**changes: str) -> str:
    """What the driver's file says of the ports; `changes`: settings with other values, "" for none."""
    told: dict[str, str] = {}
    for number in range(2):
        told[f"address_{number}"], told[f"netmask_{number}"] = port(number), "255.255.255.0"
        told[f"netdetect_{number}"] = told[f"gateway_{number}"] = "198.51.100.1"
    told.update(changes)
    return "".join(f"{name}={value}\n" for name, value in told.items() if value)


def ports(**changes: str) -> dict[Union[str, tuple[str, ...]], Union[str, CommandResult]]:
    """What hccn_tool answers for both NPUs; `changes`: other answers by question and number, as link_1."""
    answers: dict[Union[str, tuple[str, ...]], Union[str, CommandResult]] = {}
    for number in range(2):
        told = {
            "ip": f"ipaddr:{port(number)}\nnetmask:255.255.255.0\n",
            "link": "link status: UP\n",
            "net_health": "net health status: Success\n",
            "netdetect": "netdetect address: 198.51.100.1\n",
            "gateway": f"default gateway:198.51.100.1, Iface:eth{number}\n",
            "tls": f"dev_id:{number}, tls switch[0](0:disable, 1:enable), tls preconfigured[1]"
            "(0:non-preset, 1:preset)\n",
            "mtu": "mtu:4096\n",
        }
        for question, text in told.items():
            argv = (TOOL, "-i", str(number), f"-{question}", "-g")
            answers[argv] = changes.get(f"{question}_{number}", text)
    return answers
