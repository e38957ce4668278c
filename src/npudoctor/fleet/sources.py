"""Reads node names from files: hostfiles, Ansible inventories, rank tables, lists of node sets.

Nothing in them is executed or resolved. Of an inventory that is a program, the output of
`ansible-inventory --list` can be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of, yaml_of
from npudoctor.fleet.nodes import MOST, InvalidNodes, expand_nodes

LONGEST = 16 << 20  # bytes
_SECTION = pattern(r"\[([^\]]+)\]\s*(?:[#;].*)?")
_YAML = pattern(r"(?m)\A(?:\s*(?:#[^\n]*)?\n)*(?:---|[A-Za-z_][\w-]*:[ \t]*(?:#[^\n]*)?$)")
_RANGE = pattern(r"\[(\w+):(\w+)(?::(\d+))?\]")
_SLOTS = pattern(r":\d+\Z")
_ADDRESS = pattern(r"(?:^|\s)ansible_(?:ssh_)?host\s*=\s*[\"']?([^\s\"']+)")


def parse_node_file(content: bytes) -> tuple[str, ...]:
    """The nodes that a file names, each once, in its order. Raises InvalidNodes when it has another
    format."""
    if len(content) > LONGEST:
        raise InvalidNodes(_("the file is larger than {count} MiB", count=LONGEST >> 20))
    # -sig: editors on Windows write a byte order mark, which would become part of the first name.
    text = content.decode("utf-8-sig", "replace")
    names: dict[str, None] = {}
    for words in _find_node_sets(text):
        names.update(dict.fromkeys(expand_nodes(words)))
        if len(names) > MOST:
            raise InvalidNodes(_("the file lists more than {most} nodes", most=MOST))
    if not names:
        raise InvalidNodes(_("the file lists no nodes"))
    return tuple(names)


def _find_node_sets(text: str) -> Iterable[str]:
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
        hosts = _dict_or_empty(_dict_or_empty(document.get("_meta")).get("hostvars"))
        groups = [_dict_or_empty(group).get("hosts") for group in document.values()]
        host_names = dict.fromkeys([*hosts, *(str(name) for names in groups for name in names or ())])
        return (_address_of(_dict_or_empty(hosts.get(name)), name) for name in host_names)
    lines = [line.strip() for line in text.splitlines()]
    if any(_SECTION.fullmatch(line) for line in lines):
        return _read_ini_inventory(lines)
    if _YAML.match(text):
        return _read_yaml_inventory(text)
    # A hostfile of mpirun, Horovod or DeepSpeed, or node sets as for `srun --nodelist`: one per line.
    # DeepSpeed and mpirun append `slots=8` after a blank, Horovod `:8`.
    words = [line.partition("#")[0].split() for line in lines]
    return [_SLOTS.sub("", fields[0]) for fields in words if fields]


def _read_ini_inventory(lines: Iterable[str]) -> Iterator[str]:
    in_hosts = True
    for line in lines:
        section = _SECTION.fullmatch(line)
        if section is not None:
            in_hosts = ":" not in section[1]  # [group:vars], [group:children]
        elif in_hosts and line and line[0] not in "#;":
            address = _ADDRESS.search(line)
            yield address[1] if address else _convert_ranges(line.split()[0])


def _convert_ranges(host: str) -> str:
    """Rewrite Ansible's range web[01:50] as a node set."""

    def spell_range(match: Any) -> str:
        first, last, step = match.groups()
        if first.isdecimal() and last.isdecimal():
            return f"[{first}-{last}{f'/{step}' if step else ''}]"
        letters: Iterable[int] = ()
        if len(first) == len(last) == 1:
            letters = range(ord(first), ord(last) + 1, int(step or 1) or 1)
        return "[" + ",".join(map(chr, letters)) + "]"

    return _RANGE.sub(spell_range, host)


def _read_yaml_inventory(text: str) -> Iterator[str]:
    try:
        document = yaml_of(text)  # ClusterShell brings its library
    except ValueError as error:
        raise InvalidNodes(_("the file is not YAML: {why}", why=error)) from error
    visited_ids: set[int] = set()
    pending_groups = list(_dict_or_empty(document).values())
    while pending_groups:
        group = pending_groups.pop(0)
        if not isinstance(group, dict) or id(group) in visited_ids:
            continue
        visited_ids.add(id(group))  # an alias may lead back
        for name, variables in _dict_or_empty(group.get("hosts")).items():
            yield _address_of(_dict_or_empty(variables), _convert_ranges(str(name)))
        pending_groups += _dict_or_empty(group.get("children")).values()


def _address_of(variables: Mapping[str, object], name: str) -> str:
    address = variables.get("ansible_host", variables.get("ansible_ssh_host"))
    return str(address) if address else name


def _dict_or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
