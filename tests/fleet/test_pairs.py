"""Who reaches whom, told as people would."""

from __future__ import annotations

from npudoctor.fleet.pairs import NodeConnections, judge_reachability, port_text

PORTS = frozenset(range(60000, 60016))
TIMEOUT = "no answer"


def nodes(count: int, *broken: tuple[str, str], ports: frozenset[int] = PORTS) -> list[NodeConnections]:
    """So many nodes, between some of which nothing passes; "*" is every node."""
    names = [f"node{number}" for number in range(1, count + 1)]

    def failed(source: str) -> dict[str, tuple[frozenset[int], str]]:
        return {
            target: (ports, TIMEOUT)
            for target in names
            if target != source
            and any(pair[0] in (source, "*") and pair[1] in (target, "*") for pair in broken)
        }

    return [NodeConnections(name, PORTS, {}, failed(name)) for name in names]


def test_all_reach_all() -> None:
    reach = judge_reachability(nodes(16))
    assert (reach.deaf, reach.mute, reach.blocked, reach.exit_code) == ({}, {}, (), 0)
    assert reach.attempts == 16 * 15 * 16


def test_a_firewall_on_one_node_is_one_sentence() -> None:
    reach = judge_reachability(nodes(16, ("*", "node7")))
    assert (reach.deaf, reach.mute, reach.blocked) == ({"node7": TIMEOUT}, {}, ())


def test_a_node_that_reaches_nobody() -> None:
    reach = judge_reachability(nodes(16, ("node3", "*")))
    assert (reach.deaf, reach.mute, reach.blocked) == ({}, {"node3": TIMEOUT}, ())


def test_both_at_once_and_a_pair() -> None:
    reach = judge_reachability(nodes(16, ("*", "node7"), ("node3", "*"), ("node1", "node2")))
    assert (set(reach.deaf), set(reach.mute)) == ({"node7"}, {"node3"})
    (pair,) = reach.blocked
    assert (pair.sources, pair.targets) == (("node1",), ("node2",))
    assert (pair.ports, pair.reason) == (PORTS, TIMEOUT)


def test_two_halves_that_do_not_meet_are_two_sentences() -> None:
    left, right = ("node1", "node2"), ("node3", "node4")
    pairs = [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]
    reach = judge_reachability(nodes(4, *pairs))
    assert (reach.deaf, reach.mute) == ({}, {})
    assert {(pair.sources, pair.targets) for pair in reach.blocked} == {(left, right), (right, left)}


def test_a_few_ports_are_told_by_number() -> None:
    reach = judge_reachability(nodes(3, ("*", "node2"), ports=frozenset({60003, 60004, 60010})))
    assert (reach.deaf, reach.mute) == ({}, {})
    (pair,) = reach.blocked
    assert port_text(pair.ports) == "60003-60004,60010" and pair.sources == ("node1", "node3")


def test_who_took_no_part_is_named_and_proves_nothing() -> None:
    reach = judge_reachability([*nodes(3), NodeConnections("node9", error="cannot be reached")])
    assert (reach.exit_code, [side.node for side in reach.absent_nodes]) == (2, ["node9"])
    assert (reach.deaf, reach.mute) == ({}, {})
