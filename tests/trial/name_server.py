"""A name server for tests, on 127.0.0.1 of a network namespace: `name_server.py READY NAME=ADDRESS...`.

A NAME may be `*`, which is every name, or `*.domain`; the first that fits answers, and no other name exists.
"""

from __future__ import annotations

import fnmatch
import socket
import struct
import sys

A, ANSWER, NOBODY = 1, 0x8580, 0x8583


def asked(question: bytes) -> tuple[str, int, int]:
    """The name, the kind of record, and where the question ends."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    return ".".join(labels), struct.unpack(">H", question[at + 1 : at + 3])[0], at + 5


def answered(question: bytes, known: list[tuple[str, str]]) -> bytes:
    """The answer to a question: an address, none of that kind, or that nobody has the name."""
    name, kind, end = asked(question)
    address = next((one for pattern, one in known if fnmatch.fnmatchcase(name, pattern)), "")
    record = b""
    if address and kind == A:
        record = b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 60, 4) + socket.inet_aton(address)
    counts = (ANSWER if address else NOBODY, 1, len(record[:1]), 0, 0)
    return question[:2] + struct.pack(">HHHHH", *counts) + question[12:end] + record


def main(ready: str, *rules: str) -> None:
    """Answer until the namespace is gone."""
    known = [(name, address) for name, _equals, address in (rule.partition("=") for rule in rules)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        open(ready, "w").close()
        while True:
            question, who = server.recvfrom(2000)
            server.sendto(answered(question, known), who)


if __name__ == "__main__":
    main(*sys.argv[1:])
