"""Run in a network namespace of its own: sets rules, asks the check, and has a peer connect for real.

Arguments: a shell script with the rules, then variables and peers as JSON. Prints what the check and the
peer say of each port.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

US, PEER, US6, PEER6 = "10.77.0.1", "10.77.0.2", "fd77::1", "fd77::2"
WAIT = 1.2  # more than the first repetition of a packet that is lost

# In the peer's namespace: connects to every port at once, and counts only an echo.
CLIENT = """
import json, socket, sys, threading
address, wait, ports = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
found = {}
def connect(port):
    try:
        with socket.create_connection((address, port), timeout=wait) as client:
            client.settimeout(wait)
            client.sendall(b"x")
            found[port] = "open" if client.recv(1) == b"x" else "blocked"
    except OSError:
        found[port] = "blocked"
threads = [threading.Thread(target=connect, args=(port,)) for port in ports]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(found))
"""


def sh(script: str) -> None:
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the scene cannot be set: {done.stderr or done.stdout}")


def start_peer() -> int:
    peer = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{peer.pid}/ns/net") == own:
        time.sleep(0.01)
    sh(
        f"""
        ip link set lo up
        ip link add eth7 type veth peer name eth0 netns {peer.pid}
        ip address add {US}/24 dev eth7
        ip address add {US6}/64 dev eth7 nodad
        ip link set eth7 up
        nsenter -t {peer.pid} -n sh -ec '
            ip address add {PEER}/24 dev eth0
            ip address add {PEER6}/64 dev eth0 nodad
            ip link set lo up; ip link set eth0 up'
        """
    )
    return peer.pid


def serve(port: int) -> None:
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)

    def answer() -> None:
        while True:
            connection, _address = server.accept()
            connection.settimeout(3)
            with contextlib.suppress(OSError):
                connection.sendall(connection.recv(1))
            connection.close()

    threading.Thread(target=answer, daemon=True).start()


def connect(pid: int, ports: list[int], *peers: str) -> dict[str, str]:
    """What the peer, process `pid`, meets at each port; the worst where there are several peers."""
    real: dict[str, str] = {}
    for address in {US6 if ":" in peer else US for peer in peers}:
        argv = ["nsenter", "-t", str(pid), "-n", sys.executable, "-I", "-S", "-c", CLIENT, address, str(WAIT)]
        done = subprocess.run([*argv, json.dumps(ports)], capture_output=True, text=True, check=True)
        for port, answer in json.loads(done.stdout).items():
            real[f"tcp/{port}"] = "blocked" if real.get(f"tcp/{port}") == "blocked" else answer
    return real


def main() -> None:
    script, variables, peers = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    pid = start_peer()
    try:
        sh(script)
        from npudoctor.checks.network.firewall import firewall
        from npudoctor.host import Host, Options
        from npudoctor.testing import Asked, ask

        def judge(*named: str) -> Asked:
            return ask(firewall, Host(Options(peers=named, expect="none"), variables=variables))

        asked, anybody = judge(*peers), judge()
        ports = [int(key.partition("/")[2]) for key in asked.facts]
        for port in ports:
            serve(port)
        real = connect(pid, ports, *peers)
        told = {
            "facts": asked.facts,
            "anybody": anybody.facts,
            "real": real,
            "status": asked.status.value,
            "reason": asked.reason,
            "advisory": asked.advisory,
            "messages": [one.message for one in asked.findings],
            "fixes": [list(one.fix.commands) for one in asked.findings if one.fix],
        }
        print(json.dumps(told), flush=True)
    finally:
        os.kill(pid, 9)


if __name__ == "__main__":
    main()
