"""Reads all rules that the kernel has for this network namespace: nftables' own and those of iptables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.commands import Answer
from npudoctor.host.errors import CannotTell
from npudoctor.host.firewall_nft import parse_nft
from npudoctor.host.firewall_rules import Rule, Table
from npudoctor.host.firewall_xt import parse_xt
from npudoctor.host.host import Host
from npudoctor.messages import _

LIST = ("nft", "-j", "list", "ruleset")
LIMIT = 64 << 20  # of a rule set
_NAMES = {False: "/proc/net/ip_tables_names", True: "/proc/net/ip6_tables_names"}


@dataclass(frozen=True)
class Rules:
    """All tables that could be read, and why others could not."""

    tables: tuple[Table, ...]
    unread: tuple[str, ...] = ()


def read_rules(host: Host) -> Rules:
    """The rules of this network namespace; only root sees them."""
    reader = _Reader(host)
    tables = [*reader.nft(), *reader.legacy(ipv6=False), *reader.legacy(ipv6=True)]
    return Rules(tuple(tables), tuple(dict.fromkeys(reader.unread)))


class _Reader:
    """Asks the tools, each at most once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._answers: dict[tuple[str, ...], Answer] = {}
        self._lent: dict[bool, Mapping[tuple[str, str], Sequence[Rule]]] = {}
        self.unread: list[str] = []

    def nft(self) -> list[Table]:
        """The tables of nf_tables, those of iptables-nft among them."""
        if _kernel_lacks_nft(self._host):
            return []
        answer = self._ask(*LIST)
        if not answer.ok:
            self.unread.append(_why_not("nft", answer))
            return []
        try:
            return parse_nft(answer.stdout, self._borrowed) if answer.stdout.strip() else []
        except ValueError:
            self.unread.append(_("what nft prints cannot be read"))
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
            if answer.ok and "(nf_tables)" not in answer.stdout:
                tables = self._parsed(answer.stdout, ipv6, tool[: -len("-save")])
                if {table.name for table in tables} >= set(names):
                    return tables
        self.unread.append(_why_not(f"{kind}-legacy-save", answer))
        return []

    def _parsed(self, text: str, ipv6: bool, tool: str = "") -> list[Table]:
        try:
            return parse_xt(text, ipv6, tool)
        except (ValueError, KeyError, IndexError):
            return []

    def _borrowed(self, family: str, table: str, chain: str) -> Optional[Sequence[Rule]]:
        """The rules of a chain as iptables prints them, where it keeps them in nf_tables."""
        if family not in ("ip", "ip6"):
            return None
        ipv6 = family == "ip6"
        if ipv6 not in self._lent:
            answer = self._ask("ip6tables-save" if ipv6 else "iptables-save")
            good = answer.ok and "(nf_tables)" in answer.stdout
            self._lent[ipv6] = dict(_chains(self._parsed(answer.stdout, ipv6) if good else []))
        return self._lent[ipv6].get((table, chain))

    def _ask(self, *argv: str) -> Answer:
        if argv not in self._answers:
            self._answers[argv] = self._host.commands.run(argv, limit=LIMIT)
        return self._answers[argv]


def _chains(tables: Sequence[Table]) -> Iterator[tuple[tuple[str, str], Sequence[Rule]]]:
    for table in tables:
        for name, chain in table.chains.items():
            yield (table.name, name), chain.rules


def _why_not(tool: str, answer: Answer) -> str:
    if answer.ended == "missing":
        return _("{tool} is not installed").format(tool=tool)
    if answer.ended == "exited":
        said = (answer.stderr or answer.stdout).strip().splitlines()
        return _("{tool} does not answer: {why}").format(tool=tool, why=said[0][:120] if said else "")
    return _("{tool} does not answer: {why}").format(tool=tool, why=answer.ended)


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
