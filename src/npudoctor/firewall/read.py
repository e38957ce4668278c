"""Reads all firewall rules of this network namespace: those of nf_tables and of the legacy iptables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.firewall.nft import parse_nft
from npudoctor.firewall.rules import Rule, RuleTable
from npudoctor.firewall.xt import parse_xt
from npudoctor.host.host import Host
from npudoctor.host.process.commands import CommandResult

LIST = ("nft", "-j", "list", "ruleset")
MAX_RULE_SET_BYTES = 64 << 20
# Programs that are many tools in one, and the variant of iptables that each is; iptables-save links to one.
_PROGRAMS = {
    "xtables-nft-multi": "nft", "xtables-compat-multi": "nft", "xtables-legacy-multi": "legacy",
    "xtables-multi": "legacy",
}  # fmt: skip
_NAMES = {False: "/proc/net/ip_tables_names", True: "/proc/net/ip6_tables_names"}


@dataclass(frozen=True)
class Rules:
    """The tables that could be read, and sentences that say why others could not."""

    tables: tuple[RuleTable, ...]
    unread: tuple[str, ...] = ()
    unlent: tuple[str, ...] = ()  # why matches of iptables in nft's tables could not be read


def read_rules(host: Host) -> Rules:
    """Read the rules of this network namespace; without root's rights all that is there is `unread`."""
    reader = _RuleReader(host)
    tables = [*reader.read_nft(), *reader.read_legacy(ipv6=False), *reader.read_legacy(ipv6=True)]
    return Rules(tuple(tables), tuple(dict.fromkeys(reader.unread)), tuple(dict.fromkeys(reader.unlent)))


class _RuleReader:
    """Runs the tools, each at most once, and collects why something could not be read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._answers: dict[tuple[str, ...], CommandResult] = {}
        self._lent: dict[bool, Mapping[tuple[str, str], Sequence[Rule]]] = {}
        self.unread: list[str] = []
        self.unlent: list[str] = []

    def read_nft(self) -> list[RuleTable]:
        """The tables of nf_tables, including those of iptables-nft."""
        if _kernel_lacks_nft(self._host):
            return []
        answer = self._run(*LIST)
        if not answer.ok:
            self.unread.append(_describe_failure("nft", answer))
            return []
        try:
            return parse_nft(answer.stdout, self._lend_rules) if answer.stdout.strip() else []
        except ValueError:
            self.unread.append(_("the output of nft cannot be parsed"))
            return []

    def read_legacy(self, ipv6: bool) -> list[RuleTable]:
        """The tables of the legacy iptables.

        The tool is run only if the kernel lists a table: iptables itself would load the modules.
        """
        try:
            names = (self._host.running_files.text(_NAMES[ipv6]) or "").split()
        except CannotTell as error:
            self.unread.append(error.reason)
            return []
        if not names:
            return []
        kind = "ip6tables" if ipv6 else "iptables"
        answer = CommandResult((), "missing")
        for tool in (f"{kind}-legacy-save", f"{kind}-save"):
            answer = self._run(tool)
            if answer.ok and self._variant(tool, answer) == "legacy":
                tables = self._parse_tables(answer.stdout, ipv6, tool[: -len("-save")])
                if {table.name for table in tables} >= set(names):
                    return tables
        if answer.ok:
            self.unread.append(_("{tool} cannot read the tables of the legacy iptables", tool=tool))
        else:
            self.unread.append(_describe_failure(f"{kind}-legacy-save", answer))
        return []

    def _parse_tables(self, text: str, ipv6: bool, tool: str = "") -> list[RuleTable]:
        try:
            return parse_xt(text, ipv6, tool)
        except (ValueError, KeyError, IndexError):
            return []

    def _lend_rules(self, family: str, table: str, chain: str) -> Optional[Sequence[Rule]]:
        """The rules of a chain as iptables-nft prints them; None if it does not print the chain."""
        if family not in ("ip", "ip6"):
            return None
        ipv6 = family == "ip6"
        if ipv6 not in self._lent:
            self._lent[ipv6] = {
                (saved.name, name): saved_chain.rules
                for saved in self._read_saved("ip6tables" if ipv6 else "iptables", ipv6)
                for name, saved_chain in saved.chains.items()
            }
        rules = self._lent[ipv6].get((table, chain))
        if rules is None and not self.unlent:
            self.unlent.append(_("iptables-save does not print the chain {chain}", chain=chain))
        return rules

    def _read_saved(self, kind: str, ipv6: bool) -> list[RuleTable]:
        """The tables that iptables-nft prints; none if there is no such variant, which `unlent` then says."""
        first_answer = CommandResult((), "missing")
        for tool in (f"{kind}-save", f"{kind}-nft-save"):
            answer = self._run(tool)
            if answer.ok and self._variant(tool, answer) == "nft":
                return self._parse_tables(answer.stdout, ipv6)
            first_answer = first_answer if first_answer.argv else answer
        if first_answer.ok:
            self.unlent.append(_("{tool} does not print the rules in nf_tables", tool=f"{kind}-save"))
        else:
            self.unlent.append(_describe_failure(f"{kind}-save", first_answer))
        return []

    def _variant(self, tool: str, answer: CommandResult) -> str:
        """Whose rules a tool prints: "nft", "legacy", or "" if that cannot be determined.

        The header of the dump says it only since iptables 1.8.8.
        """
        if "(nf_tables)" in answer.stdout:
            return "nft"
        path = self._host.commands.find(tool)
        real = (self._host.running_files.real(path) if path else None) or ""
        program = real.rpartition("/")[2]
        if program in _PROGRAMS:
            return _PROGRAMS[program]
        if "-nft-" in tool or "-legacy-" in tool:
            return "nft" if "-nft-" in tool else "legacy"
        version = self._run(tool[: -len("-save")], "--version")
        return _variant_of_version(version.stdout) if version.ok else ""

    def _run(self, *argv: str) -> CommandResult:
        if argv not in self._answers:
            self._answers[argv] = self._host.commands.run(argv, limit=MAX_RULE_SET_BYTES)
        return self._answers[argv]


def _variant_of_version(version: str) -> str:
    """The variant that `iptables --version` names; before 1.8 there was only legacy, which named none."""
    for word, variant in (("(nf_tables)", "nft"), ("(legacy)", "legacy")):
        if word in version:
            return variant
    number = version.strip().rpartition(" v")[2].split(".")[:2]
    old = len(number) == 2 and all(part.isdigit() for part in number)
    return "legacy" if old and (int(number[0]), int(number[1])) < (1, 8) else ""


def _describe_failure(tool: str, answer: CommandResult) -> str:
    if answer.ended == "missing":
        return _("{tool} is not installed", tool=tool)
    if answer.ended == "exited":
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        return _("{tool} does not answer: {why}", tool=tool, why=lines[0][:120] if lines else "")
    return _("{tool} does not answer: {why}", tool=tool, why=answer.ended)


def _kernel_lacks_nft(host: Host) -> bool:
    """Whether nf_tables is neither loaded nor built in: running nft would load the module."""
    release = host.system.release
    try:
        built_in = host.running_files.text(f"/lib/modules/{release}/modules.builtin")
        loaded = host.running_files.text("/proc/modules")
    except CannotTell:
        return False
    if not built_in or loaded is None:
        return False
    return "/nf_tables.ko" not in built_in and not any(
        line.startswith("nf_tables ") for line in loaded.splitlines()
    )
