"""Plays scenes like firewall_stage.py: sets rules, mends them by the real command, and has a peer connect.

A scene is a shell script with the rules, the port, the peers, how it is taken back ("undo", "lines" or
"reboot"), and a command that prints more of the rules. It tells what the command and the peer say after each
act.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from importlib import import_module
from typing import Any

from firewall_stage import Peer, Scene, serve, sh, stay  # type: ignore[import-not-found]

import npudoctor.__main__

# What commands load when they come to it is loaded here, once for all of them.
for part in ("cli", "fixing", "host", "proof", "registry", "render", "runner"):
    package = import_module(f"npudoctor.{part}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)

FIX = ("fix", "firewall", "--yes", "--risk", "caution")


def command(port: int, *words: str) -> Any:
    """What the command prints, in a process of its own."""
    variables = {
        "PATH": os.environ["PATH"], "HOME": "/root", "NPUDOCTOR_CHECKS_DIR": "",
        "HCCL_HOST_SOCKET_PORT_RANGE": str(port), "SLURM_JOB_NUM_NODES": "2",
    }  # fmt: skip
    more = ["--expect", "none"] if words[0] in ("check", "fix") else []
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                os.dup2(output.fileno(), 1)
                os.environ.clear()
                os.environ.update(variables)
                sys.argv = ["npudoctor", *words, "--format", "json", *more]
                status = npudoctor.__main__.main()
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 70
            finally:
                sys.stdout.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output.seek(0)
        text = output.read()
    return json.loads(text) if text else sys.exit(f"{words}: {status}")


def mend(scene: Scene) -> dict[str, Any]:
    script, port, peers, back, more = scene
    sh("mount -t tmpfs none /var/lib")  # root's journal
    peer = Peer()
    sh(script)
    serve(port)
    named = ("--peers", ",".join(peers))

    def look() -> dict[str, object]:
        (row,) = command(port, "check", "firewall", *named)["results"]
        found = peer.connect([port], *peers)[f"tcp/{port}"]
        dump = ["sh", "-c", f"nft list ruleset; iptables-legacy-save; {more}"]
        rules = subprocess.run(dump, capture_output=True, text=True, check=False).stdout
        if not row["facts"]:
            sys.exit(json.dumps(row))
        return {"fact": row["facts"][f"tcp/{port}"], "real": found, "rules": rules}

    sick = look()
    mended = command(port, *FIX, *named)
    told: dict[str, Any] = {"sick": sick, "fix": mended}
    told["well"] = look()
    told["again"] = command(port, *FIX, *named)
    if back == "reboot":  # the rules in the kernel are gone
        sh("iptables -F; nft flush ruleset")
        told["undo"] = command(port, "undo", "--yes")
        told["undo again"] = command(port, "undo", "--yes")
    elif back == "undo":
        told["undo"] = command(port, "undo", "--yes")
    else:
        lines = [line for one in mended["actions"] for line in one["undo"]]
        sh("\n".join(lines))
    told["back"] = look()
    return told


if __name__ == "__main__":
    stay(mend)
