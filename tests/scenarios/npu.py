"""What npu-smi says on a machine: two idle chips, in the layout of the driver's time."""

from __future__ import annotations

from .eras import Era

GROUP = 1002  # HwHiAiUser, to whom the device nodes belong
BAR = "+----------------------+---------------+----------------------------------------------------+"
END = BAR.replace("-", "=")


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
