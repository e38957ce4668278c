"""trial-rendezvous on a real machine in namespaces: what it says is ill, and the line that heals it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.whole, pytest.mark.needs_root]

PYTHON = "/usr/bin/python3"  # that everybody may start
# The check, the line of its remedy, and the check again.
TWICE = """
set -e
{scene}
check() {{
    "$0" -m npudoctor check trial-rendezvous --format json \\
        --python {python} --as-user nobody --expect none || true
}}
check
{typed}
check
"""


def twice(scene: str, typed: str, **variables: str) -> list[dict[str, list[str]]]:
    """What the check says of a scene, and once a line was typed."""
    known = {"PATH": os.environ["PATH"], "HOME": "/root", **variables}
    apart = "unshare -n -u -m -p -f --mount-proc --kill-child sh -c".split()
    done = subprocess.run(
        [*apart, TWICE.format(scene=scene, typed=typed, python=PYTHON), sys.executable],
        env=known,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    decoder, text, rows = json.JSONDecoder(), done.stdout, []
    while text.strip():
        report, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        (row,) = [row for row in report["results"] if row["check"] == "trial-rendezvous"]
        rows.append({
            "codes": [one["code"] for one in row["findings"] if one["code"].endswith(("bind", "connect"))],
            "lines": [line for one in row["findings"] for line in (one.get("fix") or {}).get("commands", ())],
        })  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("scene", "port", "typed", "code"),
    [
        ("", "29544", "ip link set dev lo up", "cannot-connect"),
        ("ip link set lo up", "80", "export MASTER_PORT=29501", "cannot-bind"),
        (
            'ip link set lo up; "$0" -m http.server 29544 >/dev/null 2>&1 & sleep 1',
            "29544",
            "export MASTER_PORT=29545",
            "cannot-bind",
        ),
        (
            "ip link set lo up; ip link set lo mtu 60",
            "29544",
            "ip link set dev lo mtu 65536\nip address add 127.0.0.1/8 dev lo",
            "cannot-connect",
        ),
        (
            "ip link set lo up; tc qdisc add dev lo root tbf rate 100bit burst 100 latency 60s",
            "29544",
            "tc qdisc del dev lo root",
            "cannot-connect",
        ),
    ],
)
def test_the_line_heals_it(scene: str, port: str, typed: str, code: str) -> None:
    ill, healed = twice(scene, typed, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert ill["codes"] == [f"trial-rendezvous.{code}"] and "\n".join(ill["lines"]).endswith(typed)
    assert healed["codes"] == []


CARD = """
ip link set lo up; ip link add name near0 type veth peer name far0; ip link set near0 up
ip address add 10.9.9.1/24 dev near0; ip route del local 10.9.9.1 dev near0 table local
"""


@pytest.mark.parametrize(
    ("scene", "place", "typed"),
    [
        (
            CARD,
            "10.9.9.1",
            "ip route add local 10.9.9.1 dev near0 table local",
        ),
        (
            "ip link set lo up; ip address add 127.0.0.1/32 dev lo; ip address del 127.0.0.1/8 dev lo",
            "127.0.1.1",
            "ip address add 127.0.0.1/8 dev lo",
        ),
    ],
)
def test_an_address_is_given_back(scene: str, place: str, typed: str) -> None:
    ill, healed = twice(scene, typed, MASTER_ADDR=place, MASTER_PORT="29544")
    assert ill["codes"] == ["trial-rendezvous.cannot-connect"] and typed in ill["lines"]
    assert healed["codes"] == []
