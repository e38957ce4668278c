"""Runs the real command in namespaces with a journal of their own: sick, fix, look, undo, look."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# Arguments: variables, options of check and fix, what is asked, how it is taken back. Prints the codes that
# are found and what fix and undo say.
ACTS = """
import json, os, subprocess, sys
variables, options, name, back = json.loads(sys.argv[1])
clean = {"PATH": os.environ["PATH"], "HOME": "/root", "NPUDOCTOR_CHECKS_DIR": ""}
def run(*words):
    argv = [sys.executable, "-m", "npudoctor", *words, "--format", "json"]
    done = subprocess.run(argv, env={**clean, **variables}, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{words}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout)
def look():
    found = run("check", name.partition(".")[0], *options)["results"]
    return [one["code"] for row in found for one in row["findings"]]
told = {"sick": look()}
told["fix"] = run("fix", name, "--yes", "--risk", "caution", *options)
told["well"] = look()
told["again"] = run("fix", name, "--yes", "--risk", "caution", *options)
if back == "undo":
    told["undo"] = run("undo", "--yes")
else:
    lines = [line for one in told["fix"]["actions"] for line in one["undo"]]
    subprocess.run(["bash", "-ec", "\\n".join(lines)], check=True)
told["back"] = look()
print(json.dumps(told))
"""


def mend(
    scene: str, name: str, variables: Mapping[str, str], options: Sequence[str] = (), back: str = "undo"
) -> dict[str, Any]:
    """What was found and said, on a machine that a shell script made."""
    script = f'mount -t tmpfs none /var/lib\n{scene}\nexec "$@"'
    told = json.dumps([dict(variables), list(options), name, back])
    argv = ["unshare", "--net", "--mount", "bash", "-ec", script, "bash", sys.executable, "-c", ACTS, told]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr[-1500:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
