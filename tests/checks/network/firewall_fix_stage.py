"""Run in namespaces of its own: sets rules, mends them by the real command, and has a peer connect.

Arguments: a shell script with the rules, the port, the peers as JSON, and how it is taken back: "undo" or
"lines". Prints what the command and the peer say after each act, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from firewall_stage import connect, serve, sh, start_peer  # type: ignore[import-not-found]

LASTING = "firewall-cmd --permanent --zone=public --list-all 2> /dev/null"
FIX = ("fix", "firewall", "--yes", "--risk", "caution")


def npudoctor(port: int, *words: str) -> Any:
    variables = {
        "PATH": os.environ["PATH"], "HOME": "/root", "NPUDOCTOR_CHECKS_DIR": "",
        "HCCL_HOST_SOCKET_PORT_RANGE": str(port), "SLURM_JOB_NUM_NODES": "2",
    }  # fmt: skip
    argv = [sys.executable, "-m", "npudoctor", *words, "--format", "json", "--expect", "none"]
    argv = argv[:-2] if words[0] in ("undo", "history") else argv
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{words}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    script, port, peers, back = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    sh("mount -t tmpfs none /var/lib")  # root's journal
    pid = start_peer()
    try:
        sh(script)
        serve(port)
        named = ("--peers", ",".join(peers))

        def look() -> dict[str, object]:
            (row,) = npudoctor(port, "check", "firewall", *named)["results"]
            found = connect(pid, [port], *peers)[f"tcp/{port}"]
            rules = subprocess.run(
                ["sh", "-c", f"nft list ruleset; iptables-legacy-save; {LASTING}; echo ufw:; ufw status"],
                capture_output=True, text=True, check=False,
            ).stdout  # fmt: skip
            if not row["facts"]:
                sys.exit(json.dumps(row))
            return {"fact": row["facts"][f"tcp/{port}"], "real": found, "rules": rules}

        sick = look()
        mended = npudoctor(port, *FIX, *named)
        told: dict[str, object] = {"sick": sick, "fix": mended}
        told["well"] = look()
        told["again"] = npudoctor(port, *FIX, *named)
        if back == "reboot":  # the rules in the kernel are gone
            sh("iptables -F; nft flush ruleset")
            told["undo"] = npudoctor(port, "undo", "--yes")
            told["undo again"] = npudoctor(port, "undo", "--yes")
        elif back == "undo":
            told["undo"] = npudoctor(port, "undo", "--yes")
        else:
            lines = [line for one in mended["actions"] for line in one["undo"]]
            sh("\n".join(lines))
        told["back"] = look()
        print(json.dumps(told), flush=True)
    finally:
        os.kill(pid, 9)


main()
