"""What the tools of a healthy machine with eight idle NPUs print, and how long they take for it.

Written for this, in the form of public captures of npu-smi 26 and hccn_tool; the addresses are of RFC 5737.
"""

from __future__ import annotations

from pathlib import Path

NPUS = 8
NPU_SMI_SECONDS = 1.5
HCCN_TOOL_SECONDS = 0.3

VERSION = """\
Version=25.0.rc1.1
ascendhal_version=7.35.23
Innerversion=V100R001C21SPC002B210
compatible_version=[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]
compatible_version_fw=[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""
FIRMWARE = "Version=7.7.0.1.231\nfirmware_version=1.0\npackage_version=25.0.rc1.1\n"
INSTALL_RECORD = """\
UserName=HwHiAiUser
UserGroup=HwHiAiUser
Driver_Install_Type=full
Driver_Install_Path_Param=/usr/local/Ascend
Driver_Install_For_All=no
Driver_Install_Status=complete
Firmware_Install_Type=full
Firmware_Install_Path_Param=/usr/local/Ascend
Firmware_Install_Status=complete
"""

_WIDTHS = (27, 15, 70)
_THIN = "+" + "+".join("-" * width for width in _WIDTHS) + "+"
_THICK = "+" + "+".join("=" * width for width in _WIDTHS) + "+"
_EDGE = "+" + "-" * (sum(_WIDTHS) + 2) + "+"
_TLS = "tls switch[0](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset)"


def _wide(text: str) -> str:
    return f"| {text:{sum(_WIDTHS) + 1}}|"


def _row(*cells: str) -> str:
    return "|" + "|".join(f" {cell:{width - 1}}" for cell, width in zip(cells, _WIDTHS)) + "|"


def table() -> str:
    """`npu-smi info`."""
    lines = [
        _EDGE,
        _wide("npu-smi 25.0.rc1.1                          Version: 25.0.rc1.1"),
        _THIN,
        _row("NPU   Name", "Health", "Power(W)             Temp(C)                 Hugepages-Usage(page)"),
        _row("Chip", "Bus-Id", "AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)"),
        _THICK,
    ]
    for number in range(NPUS):
        bus = f"0000:{(0xC1, 0x81, 0x01, 0x41)[number // 2] + number % 2:02X}:00.0"
        lines += [
            _row(f"{number}     910B3", "OK", "94.8                 48                      0    / 0"),
            _row("0", bus, "0                    0    / 0                3403 / 65536"),
            _THICK,
        ]
    lines += [
        _THIN,
        _row("NPU     Chip", "Process id", "Process name             Process memory(MB)"),
        _THICK,
    ]
    for number in range(NPUS):
        lines += [_wide(f"No running processes found in NPU {number}"), _THICK]
    return "\n".join(lines)


def npu_smi(log: Path) -> str:
    """The stand-in: it notes the question, takes its time, and knows `info` alone."""
    return f"""#!/bin/sh
echo "npu-smi $*" >>'{log}'
sleep {NPU_SMI_SECONDS}
[ "$*" = info ] || {{ echo "Error parameter of $1"; exit 1; }}
cat <<'END'
{table()}
END
"""


def hccn_tool(log: Path) -> str:
    """The stand-in: each NPU has an address of its own, a link and a gateway; TLS is off."""
    return f"""#!/bin/sh
echo "hccn_tool $*" >>'{log}'
sleep {HCCN_TOOL_SECONDS}
case "$1 $3 $4" in
"-i -ip -g") echo "ipaddr:192.0.2.1$2"; echo "netmask:255.255.255.0" ;;
"-i -link -g") echo "link status: UP" ;;
"-i -net_health -g") echo "net health status: Success" ;;
"-i -netdetect -g") echo "netdetect address: 192.0.2.1" ;;
"-i -gateway -g") echo "default gateway:192.0.2.1, Iface:eth$2" ;;
"-i -tls -g") echo "dev_id:$2, {_TLS}" ;;
"-i -mtu -g") echo "mtu:4096" ;;
*) echo "Command execute failed!"; exit 1 ;;
esac
"""


def hccn_conf() -> str:
    """/etc/hccn.conf, which says what the ports have."""
    lines = []
    for number in range(NPUS):
        values = {"address": f"192.0.2.1{number}", "netmask": "255.255.255.0"}
        values.update(netdetect="192.0.2.1", gateway="192.0.2.1")
        lines += [f"{name}_{number}={value}\n" for name, value in values.items()]
    return "".join(lines)
