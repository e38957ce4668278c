"""Reads all rules that the kernel has for this network namespace: nftables' own and those of iptables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.firewall.nft import parse_nft
from npudoctor.firewall.rules import Rule, Table
from npudoctor.firewall.xt import parse_xt
from npudoctor.host.host import Host
from npudoctor.host.process.commands import Answer

LIST = ("nft", "-j", "list", "ruleset")
LIMIT = 64 << 20  # of a rule set
# The programs that are many tools in one; a link with the tool's name leads to them.
_PROGRAMS = {
    "xtables-nft-multi": "nft", "xtables-compat-multi": "nft", "xtables-legacy-multi": "legacy",
    "xtables-multi": "legacy",
}  # fmt: skip
_NAMES = {False: "/proc/net/ip_tables_names", True: "/proc/net/ip6_tables_names"}


@dataclass(frozen=True)
class Rules:
    """All tables that could be read, and why others could not."""

    tables: tuple[Table, ...]
    unread: tuple[str, ...] = ()
    unlent: tuple[str, ...] = ()  # why matches of iptables in nft's tables could not be read


def read_rules(host: Host) -> Rules:
    """The rules of this network namespace; only root sees them."""
    reader = _Reader(host)
    tables = [*reader.nft(), *reader.legacy(ipv6=False), *reader.legacy(ipv6=True)]
    return Rules(tuple(tables), tuple(dict.fromkeys(reader.unread)), tuple(dict.fromkeys(reader.unlent)))


class _Reader:
    """Asks the tools, each at most once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._answers: dict[tuple[str, ...], Answer] = {}
        self._lent: dict[bool, Mapping[tuple[str, str], Sequence[Rule]]] = {}
        self.unread: list[str] = []
        self.unlent: list[str] = []

    def nft(self) -> list[Table]:
        """The tables of nf_tables, those of iptables-nft among them."""
        if _kernel_lacks_nft(self._host):
            return []
        answer = self._ask(*LIST)
        if not answer.ok:
            self.unread.append(_why_not("nft", answer))
            return []
        try:
            return parse_nft(answer.stdout, self._lend_rules) if answer.stdout.strip() else []
        except ValueError:
            self.unread.append(_("the output of nft cannot be parsed"))
            return []

    def legacy(self, ipv6: bool) -> list[Table]:
        """The tables of the older iptables, which are asked for only where the kernel lists one."""
        try:
            names = (self._host.running_files.text(_NAMES[ipv6]) or "").split()
        except CannotTell as error:
            self.unread.append(error.reason)
            return []
        if not names:
            return []
        kind = "ip6tables" if ipv6 else "iptables"
        answer = Answer((), "missing")
        for tool in (f"{kind}-legacy-save", f"{kind}-save"):
            answer = self._ask(tool)
            if answer.ok and self._variant(tool, answer) == "legacy":
                tables = self._parse_tables(answer.stdout, ipv6, tool[: -len("-save")])
                if {table.name for table in tables} >= set(names):
                    return tables
        if answer.ok:
            self.unread.append(_("{tool} cannot read the tables of the legacy iptables", tool=tool))
        else:
            self.unread.append(_why_not(f"{kind}-legacy-save", answer))
        return []

    def _parse_tables(self, text: str, ipv6: bool, tool: str = "") -> list[Table]:
        try:
            return parse_xt(text, ipv6, tool)
        except (ValueError, KeyError, IndexError):
            return []

    def _lend_rules(self, family: str, table: str, chain: str) -> Optional[Sequence[Rule]]:
        """The rules of a chain as iptables prints them, where it keeps them in nf_tables."""
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

    def _read_saved(self, kind: str, ipv6: bool) -> list[Table]:
        """What the variant of iptables that keeps its rules in nf_tables prints."""
        first = Answer((), "missing")
        for tool in (f"{kind}-save", f"{kind}-nft-save"):
            answer = self._ask(tool)
            if answer.ok and self._variant(tool, answer) == "nft":
                return self._parse_tables(answer.stdout, ipv6)
            first = first if first.argv else answer
        if first.ok:
            self.unlent.append(_("{tool} does not print the rules in nf_tables", tool=f"{kind}-save"))
        else:
            self.unlent.append(_why_not(f"{kind}-save", first))
        return []

    def _variant(self, tool: str, answer: Answer) -> str:
        """ "nft" or "legacy": whose rules it prints; "" where nothing tells. Up to 1.8.7 the dump itself
        does not."""
        if "(nf_tables)" in answer.stdout:
            return "nft"
        path = self._host.commands.find(tool)
        real = (self._host.running_files.real(path) if path else None) or ""
        program = real.rpartition("/")[2]
        if program in _PROGRAMS:
            return _PROGRAMS[program]
        if "-nft-" in tool or "-legacy-" in tool:
            return "nft" if "-nft-" in tool else "legacy"
        version = self._ask(tool[: -len("-save")], "--version")
        return _told_variant(version.stdout) if version.ok else ""

    def _ask(self, *argv: str) -> Answer:
        if argv not in self._answers:
            self._answers[argv] = self._host.commands.run(argv, limit=LIMIT)
        return self._answers[argv]


def _told_variant(version: str) -> str:
    """By what `iptables --version` prints; before 1.8 there was one kind, which said nothing."""
    for word, variant in (("(nf_tables)", "nft"), ("(legacy)", "legacy")):
        if word in version:
            return variant
    number = version.strip().rpartition(" v")[2].split(".")[:2]
    old = len(number) == 2 and all(part.isdigit() for part in number)
    return "legacy" if old and (int(number[0]), int(number[1])) < (1, 8) else ""


def _why_not(tool: str, answer: Answer) -> str:
    if answer.ended == "missing":
        return _("{tool} is not installed", tool=tool)
    if answer.ended == "exited":
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        return _("{tool} does not answer: {why}", tool=tool, why=lines[0][:120] if lines else "")
    return _("{tool} does not answer: {why}", tool=tool, why=answer.ended)


def _kernel_lacks_nft(host: Host) -> bool:
    """Whether nf_tables is neither loaded nor built in: then asking nft would only load it."""
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
