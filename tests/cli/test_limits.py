"""--peers, --wait, --user and --job: what they take, and that the host is told."""

from __future__ import annotations

import pytest

from npudoctor.cli.arguments import examined
from npudoctor.cli.config import KEYS, UsageError

from .command import Npudoctor

# A drop-in that says what the host was told.
TOLD = """    o = host.options
    yield Facts({"peers": list(o.peers), "wait": o.wait, "user": o.only_user, "job": o.only_job})"""


@pytest.mark.parametrize(
    ("told", "peers"),
    [
        ("10.0.0.1", ("10.0.0.1",)),
        ("node-7.cluster.local., fe80::1%eth0 ,node_8", ("node-7.cluster.local.", "fe80::1%eth0", "node_8")),
        ("a,b,a", ("a", "b")),
        (["2001:db8::7", "n1"], ("2001:db8::7", "n1")),
    ],
)
def test_peers(told: object, peers: tuple[str, ...]) -> None:
    assert KEYS["peers"].parse(told, isinstance(told, list)) == peers


@pytest.mark.parametrize(
    "told",
    ["", ",", "1.2.3", "10.0.0.1/24", "[::1]", "a b", "x\0", "n" * 64, "é.de", "-a", "a-", [], [7], "a,"],
)
def test_what_is_no_peer(told: object) -> None:
    with pytest.raises(UsageError):
        KEYS["peers"].parse(told, isinstance(told, list))


def test_in_a_file_peers_are_a_list() -> None:
    with pytest.raises(UsageError):
        KEYS["peers"].parse("a,b", True)


@pytest.mark.parametrize("told", ["7", "4294967295", "12_3"])
def test_jobs(told: str) -> None:
    assert examined.parse_job(told) == told


@pytest.mark.parametrize("told", ["", "7 ", "+7", "\N{ARABIC-INDIC DIGIT SEVEN}", "7_x", "99999999999"])
def test_what_is_no_job(told: str) -> None:
    with pytest.raises(UsageError):
        examined.parse_job(told)


def test_users() -> None:
    assert examined.parse_user(None) is None
    assert examined.parse_user("root") == "root"
    assert examined.parse_user("4711") == "4711", "a number may have no name here"
    with pytest.raises(UsageError):
        examined.parse_user("no\0body")


def test_the_host_is_told(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("told", TOLD)
    options = ("--peers", "n1,10.0.0.2", "--wait", "1.5", "--user", "root", "--job", "7_1")
    told = npudoctor("check", "told", "--format", "json", *options).row("told")["facts"]
    assert told == {"peers": ["n1", "10.0.0.2"], "wait": 1.5, "user": "root", "job": "7_1"}
    told = npudoctor("check", "told", "--format", "json", NPUDOCTOR_PEERS="n3").row("told")["facts"]
    assert told == {"peers": ["n3"], "wait": 0.0, "user": None, "job": None}


def test_what_is_waited_for_is_no_delay(npudoctor: Npudoctor) -> None:
    """A check that takes longer than --timeout, but less than that and --wait."""
    npudoctor.drop_in("slow", "    time.sleep(1.0)\n    yield Facts({'over': True})")
    asked = ("check", "slow", "--format", "json", "--timeout", "0.5", "--deadline", "20")
    assert npudoctor(*asked).row("slow")["status"] == "timeout"
    assert npudoctor(*asked, "--wait", "5").row("slow")["facts"] == {"over": True}
