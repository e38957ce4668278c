"""integrations/kubernetes, node-problem-detector: valid by Kubernetes' own schemas, and their scripts run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "integrations/kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
DETECTOR = ROOT / "integrations/node-problem-detector/npudoctor.json"


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.mark.parametrize("version", ["1.31", "1.34"])
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(path: Path, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    manifests = documents(path)
    assert manifests
    for document in manifests:
        validator.validate(document, version, strict=True)


def test_an_invalid_manifest_is_seen() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    (job,) = documents(FOLDER / "job.yaml")
    job["spec"]["podFailurePolicy"]["rules"][0]["action"] = 7
    with pytest.raises(validator.ValidationError):
        validator.validate(job, "1.31", strict=True)


@pytest.fixture
def gate(tmp_path: Path) -> Any:
    """Runs a command line with `npudoctor-gate` and an npudoctor that ends as the file `status` says."""
    (tmp_path / "npudoctor-gate").symlink_to(FOLDER / "gate.sh")
    program = tmp_path / "npudoctor"
    program.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\necho verdict\nexit "$(cat {tmp_path}/status)"\n'
    )
    program.chmod(0o755)

    def run(status: int, *words: str, **variables: str) -> tuple[int, str, str]:
        (tmp_path / "status").write_text(str(status))
        message = tmp_path / "message"
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NPUDOCTOR_MESSAGE": str(message), **variables}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return done.returncode, done.stdout, message.read_text()

    return run


def test_the_gate_lets_through_what_no_container_can_see(gate: Any) -> None:
    assert gate(0, "npudoctor-gate") == (0, "verdict\n", "verdict\n")
    assert gate(1, "npudoctor-gate")[0] == 1
    assert gate(2, "npudoctor-gate")[0] == 0
    assert gate(2, "npudoctor-gate", NPUDOCTOR_UNDETERMINED="fail")[0] == 2
    assert gate(64, "npudoctor-gate", "--odd")[0] == 64
    assert gate(0, "npudoctor-gate", NPUDOCTOR_MESSAGE="/dev/full")[0] == 0


def test_the_job_trains_only_behind_the_gate(gate: Any) -> None:
    (job,) = documents(FOLDER / "job.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    shell, option, script = container["command"]
    script = script.replace("python3 train.py", "echo trained")
    assert gate(0, shell, option, script)[:2] == (0, "verdict\ntrained\n")
    for status in (1, 64):
        assert gate(status, shell, option, script)[:2] == (status, "verdict\n")
    rules = job["spec"]["podFailurePolicy"]["rules"]
    told = {rule["action"]: rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule}
    assert told == {"FailIndex": [1], "FailJob": [64], "Count": [2]}


def test_the_gate_with_the_real_doctor(tmp_path: Path) -> None:
    message = tmp_path / "message"
    variables = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "NPUDOCTOR_MESSAGE": str(message), "HOME": str(tmp_path),
    }  # fmt: skip
    (pod,) = documents(FOLDER / "init-container.yaml")
    options = pod["spec"]["initContainers"][0]["command"][1:]
    done = subprocess.run(
        [FOLDER / "gate.sh", *options, "--lang", "en"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "accelerator.missing" in done.stdout
    assert message.read_text().splitlines()[-1] == done.stdout.splitlines()[-1]
    assert message.stat().st_size <= 4096


def test_nodes_are_tainted_and_freed(tmp_path: Path) -> None:
    job, *_access = documents(FOLDER / "taint.yaml")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/bin/sh\n[ "$1" != get ] || { printf "sick True\\nwell False\\nopen Unknown\\nnew \\n"; exit; }\n'
        'echo "$@" >>calls\n'
    )
    kubectl.chmod(0o755)
    subprocess.run(container["command"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path, check=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "label --overwrite node sick npudoctor.ready=false",
        "taint --overwrite node sick npudoctor.not-ready=true:NoSchedule",
        "label --overwrite node well npudoctor.ready=true",
        "taint node well npudoctor.not-ready-",
    ]


def test_node_problem_detector_has_one_configuration() -> None:
    settings, _daemonset = documents(FOLDER / "daemonset.yaml")
    assert json.loads(settings["data"]["npudoctor.json"]) == json.loads(DETECTOR.read_text())


def test_the_rule_of_node_problem_detector_runs() -> None:
    """The detector itself is not here: its conventions are 0 OK, 1 not OK, 80 bytes of standard output."""
    (rule,) = json.loads(DETECTOR.read_text())["rules"]
    seconds = int(rule["timeout"].rstrip("s"))
    command = [sys.executable, "-m", "npudoctor", *rule["args"]]
    done = subprocess.run(command, capture_output=True, timeout=seconds, env=os.environ, check=False)
    assert done.returncode == 1 and done.stdout.startswith(b"accelerator.missing: ")
    assert len(done.stdout) <= json.loads(DETECTOR.read_text())["pluginConfig"]["max_output_length"]
