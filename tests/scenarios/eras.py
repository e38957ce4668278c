"""The eras of CANN: which releases belong together, as their tables and info files say."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor.core.frozen import dataclass

SCRIPT_OF_9 = "9"


@dataclass(frozen=True)
class Era:
    """One release of CANN with the driver, the firmware and the frameworks of its time.

    `branch`: of innerversion. `torch`: torch and torch_npu. `accepts`: the list in MindSpore's own check.
    """

    cann: str
    component: str
    branch: str
    driver: str
    firmware: str
    hal: str
    chip: str
    python: str
    torch: tuple[str, str]
    mindspore: str
    accepts: tuple[str, ...]
    numpy: str
    scipy: str

    @property
    def layout(self) -> str:
        """The layout of its tree: old (up to 5.0), latest (5.1 to 8.3), new (from 8.5)."""
        major, minor = (int(number) for number in self.cann.split(".")[:2])
        return "old" if (major, minor) < (5, 1) else "latest" if (major, minor) < (8, 5) else "new"

    @property
    def kernels(self) -> bool:
        """Whether a kernels package of its own was installed beside it."""
        return self.cann.startswith("8") and self.layout == "latest"

    @property
    def minor(self) -> str:
        """The CPython of its environments, such as 3.11."""
        return ".".join(self.python.split(".")[:2])

    @property
    def tag(self) -> str:
        """The same in names of extension modules; up to 3.7 with the letter of its memory allocator."""
        return self.minor.replace(".", "") + ("m" if self.minor == "3.7" else "")


def _era(*values: object, **named: object) -> Era:
    return Era(*values, **named)  # type: ignore[arg-type]


ERAS: Mapping[str, Era] = {
    era.cann: era
    for era in (
        _era("5.0.2", "1.78.23.3.230", "C29", "21.0.2", "1.78.22.3.220", "4.0.0", "0xd801", "3.7.5",
             ("1.5.0", "1.5.0.post2"), "1.3.0", ("1.78.23.3.230",), "1.21.6", "1.5.4"),
        _era("6.0.1", "1.84.15.1.310", "C30", "22.0.4", "1.84.15.1.310", "6.0.0", "0xd801", "3.7.10",
             ("1.11.0", "1.11.0.rc2"), "1.10.0", ("1.84",), "1.21.6", "1.7.3"),
        _era("7.0.0", "7.1.0.3.220", "C15", "23.0.3", "7.1.0.5.220", "7.35.19", "0xd802", "3.9.18",
             ("2.1.0", "2.1.0"), "2.2.10", ("7.0", "7.1"), "1.24.4", "1.11.4"),
        _era("8.0.0", "7.6.0.1.220", "C20", "24.1.rc3", "7.5.0.1.129", "7.35.23", "0xd802", "3.10.13",
             ("2.4.0", "2.4.0.post2"), "2.5.0", ("7.5", "7.6"), "1.26.4", "1.12.0"),
        _era("8.1.RC1", "7.7.0.1.238", "C21", "25.0.rc1.1", "7.7.0.1.231", "7.35.23", "0xd802", "3.10.15",
             ("2.5.1", "2.5.1"), "2.6.0", ("7.6", "7.7"), "1.26.4", "1.13.1"),
        _era("8.3.RC1", "8.3.0.1.200", "C23", "25.3.rc1", "7.8.0.2.212", "7.35.23", "0xd802", "3.11.10",
             ("2.8.0", "2.8.0"), "2.7.1", ("7.8", "8.2", "8.3"), "1.26.4", "1.13.1"),
        _era("8.5.0", "8.5.0", "C25", "25.5.0", "7.8.0.5.216", "7.35.23", "0xd802", "3.11.10",
             ("2.9.0", "2.9.0"), "2.8.0", ("8.2", "8.3", "8.5"), "1.26.4", "1.13.1"),
        _era("9.0.0", "9.0.0", "C26", "25.5.1", "7.8.0.6.201", "7.35.23", "0xd802", "3.11.10",
             ("2.9.0", "2.9.0.post2"), "2.9.0", ("8.5", "9.0"), "1.26.4", "1.13.1"),
        _era("9.1.0", "9.1.0", "C27", "26.1.0", "8.0.0.0.110", "7.35.23", "0xd802", "3.12.7",
             ("2.12.0", "2.12.0"), "2.10.0", ("8.5", "9.0", "9.1"), "2.1.3", "1.14.1"),
    )
}  # fmt: skip
