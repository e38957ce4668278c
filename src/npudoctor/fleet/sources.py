"""Nodes out of files that clusters have: hostfiles, Ansible's inventories, rank tables, lists of node sets.

Nothing in them is executed or looked up: an inventory that is a program is for `ansible-inventory --list`,
whose output is read here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of, yaml_of
from npudoctor.fleet.nodes import MOST, InvalidNodes, expand

LONGEST = 16 << 20  # bytes
_SECTION = pattern(r"\[([^\]]+)\]\s*(?:[#;].*)?")
_YAML = pattern(r"(?m)\A(?:\s*(?:#[^\n]*)?\n)*(?:---|[A-Za-z_][\w-]*:[ \t]*(?:#[^\n]*)?$)")
_RANGE = pattern(r"\[(\w+):(\w+)(?::(\d+))?\]")
_SLOTS = pattern(r":\d+\Z")
_ADDRESS = pattern(r"(?:^|\s)ansible_(?:ssh_)?host\s*=\s*[\"']?([^\s\"']+)")


def nodes_in(content: bytes) -> tuple[str, ...]:
    """The nodes that a file names, each once, in its order; InvalidNodes when it is none of these files."""
    if len(content) > LONGEST:
        raise InvalidNodes(_("the file is larger than {count} MiB", count=LONGEST >> 20))
    text = content.decode("utf-8-sig", "replace")
    names: dict[str, None] = {}
    for words in _words(text):
        names.update(dict.fromkeys(expand(words)))
        if len(names) > MOST:
            raise InvalidNodes(_("the file lists more than {most} nodes", most=MOST))
    if not names:
        raise InvalidNodes(_("the file lists no nodes"))
    return tuple(names)


def _words(text: str) -> Iterable[str]:
    if text.lstrip().startswith("{"):
        try:
            document = json_of(text)
        except ValueError as error:
            raise InvalidNodes(_("the file is not JSON: {why}", why=error)) from error
        if "server_list" in document or "group_list" in document:
            from npudoctor.facts.rank_table.model import RankTableReader

            return iter(
                dict.fromkeys(server.id for server in RankTableReader().table(document).servers if server.id)
            )
        hosts = _table(_table(document.get("_meta")).get("hostvars"))
        groups = [_table(group).get("hosts") for group in document.values()]
        named = dict.fromkeys([*hosts, *(str(name) for names in groups for name in names or ())])
        return (_address(_table(hosts.get(name)), name) for name in named)
    lines = [line.strip() for line in text.splitlines()]
    if any(_SECTION.fullmatch(line) for line in lines):
        return _of_ini(lines)
    if _YAML.match(text):
        return _of_yaml(text)
    # A hostfile of mpirun, Horovod or DeepSpeed, or what `srun --nodelist` takes: a node or a set a line.
    words = [line.partition("#")[0].split() for line in lines]
    return [_SLOTS.sub("", fields[0]) for fields in words if fields]


def _of_ini(lines: Iterable[str]) -> Iterator[str]:
    in_hosts = True
    for line in lines:
        section = _SECTION.fullmatch(line)
        if section is not None:
            in_hosts = ":" not in section[1]  # [group:vars], [group:children]
        elif in_hosts and line and line[0] not in "#;":
            address = _ADDRESS.search(line)
            yield address[1] if address else _ranges(line.split()[0])


def _ranges(host: str) -> str:
    """Ansible's web[01:50] as a node set."""

    def spelled(match: Any) -> str:
        first, last, step = match.groups()
        if first.isdecimal() and last.isdecimal():
            return f"[{first}-{last}{f'/{step}' if step else ''}]"
        letters: Iterable[int] = ()
        if len(first) == len(last) == 1:
            letters = range(ord(first), ord(last) + 1, int(step or 1) or 1)
        return "[" + ",".join(map(chr, letters)) + "]"

    return _RANGE.sub(spelled, host)


def _of_yaml(text: str) -> Iterator[str]:
    try:
        document = yaml_of(text)  # ClusterShell brings its library
    except ValueError as error:
        raise InvalidNodes(_("the file is not YAML: {why}", why=error)) from error
    seen: set[int] = set()
    left = list(_table(document).values())
    while left:
        group = left.pop(0)
        if not isinstance(group, dict) or id(group) in seen:
            continue
        seen.add(id(group))  # an alias may lead back
        for name, variables in _table(group.get("hosts")).items():
            yield _address(_table(variables), _ranges(str(name)))
        left += _table(group.get("children")).values()


def _address(variables: Mapping[str, object], name: str) -> str:
    address = variables.get("ansible_host", variables.get("ansible_ssh_host"))
    return str(address) if address else name


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
