"""The trainers' stack is imported as a training script does, with real children."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checks.deep.probe_machine import asked, each, ends, machine, package
from tests.checks.python.stack_machine import site as rows

from npudoctor import Severity, Status
from npudoctor.checks.deep.framework_imports import framework_imports
from npudoctor.host import Options
from npudoctor.testing import Asked, ask

pytestmark = pytest.mark.whole

# As transformers: what it is asked for is loaded then.
LAZY = """
def __getattr__(name):
    try:
        import transformers.trainer
    except ImportError as error:
        raise ModuleNotFoundError(f"Could not import module '{name}'") from error
    return object
"""


def told(site: Path) -> Asked:
    host = machine(site)
    try:
        return ask(framework_imports, host)
    finally:
        host.close()


def stack(site: Path, trainer: str = "x = 1\n") -> None:
    package(site, "torch", "")
    package(site, "transformers", LAZY, "5.24.0")
    (site / "transformers" / "trainer.py").write_text(trainer)
    package(site, "peft", "import transformers\nLoraConfig = get_peft_model = 1", "0.21.2")
    package(site, "datasets", "Dataset = load_dataset = 1", "5.2.0")


def test_all_is_well(site: Path) -> None:
    stack(site)
    asked = told(site)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["versions"] == {
        "torch": "2.13.0", "transformers": "5.24.0", "datasets": "5.2.0", "peft": "0.21.2",
    }  # fmt: skip
    assert asked.facts["seconds"].keys() == asked.facts["versions"].keys()  # type: ignore[attr-defined]


def test_a_part_that_is_loaded_lazily(site: Path) -> None:
    stack(site, "import gone\n")
    (finding,) = told(site).findings
    assert (finding.code, finding.severity) == ("framework-imports.failed", Severity.ERROR)
    assert "import transformers fails: the module gone is not installed" in finding.message
    assert "from transformers import Trainer, TrainingArguments" in finding.evidence[-1]


def test_one_that_dies_is_found_and_the_others_are_well(site: Path) -> None:
    stack(site)
    package(site, "trl", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "1.16.0")
    asked = told(site)
    (finding,) = asked.findings
    assert finding.message.startswith("import trl fails: killed by signal 11 (SIGSEGV)")
    assert {"transformers", "peft", "datasets"} < set(asked.facts["seconds"])  # type: ignore[call-overload]


def test_what_fails_only_together_is_no_failure(site: Path) -> None:
    stack(site)
    package(site, "trl", "import sys\nassert 'datasets' not in sys.modules\nSFTTrainer = 1", "1.16.0")
    assert told(site).codes == []


def test_upon_a_framework_that_fails_nothing_is_tried(site: Path) -> None:
    stack(site)
    (site / "torch" / "__init__.py").write_text("raise RuntimeError('no CANN')\n")
    asked = told(site)
    (finding,) = asked.findings
    assert finding.message.startswith("import torch, transformers, peft fails: RuntimeError: no CANN")
    assert list(asked.facts["seconds"]) == ["datasets"]  # type: ignore[call-overload]


def test_without_the_framework_only_the_package_itself(site: Path) -> None:
    """Tokenizers and configurations are taken from transformers by who has no torch."""
    package(site, "transformers", "def __getattr__(name): raise ImportError('Trainer requires PyTorch')")
    assert told(site).codes == []


def test_a_row_of_the_site(site: Path, tmp_path: Path) -> None:
    package(site, "torch", "")
    package(site, "acme", "", "1.0")
    row = '[[frameworks.trainers]]\ndistribution = "acme"\nmodules = "acme"\nafter = "torch"\n'
    text = f'{row}imports = ["from acme import Trainer"]\nsource = "ours"\nas_of = "2026-11"\n'
    host = machine(site)
    host.options = Options(**{**vars(host.options), "knowledge": rows(tmp_path / "k", text)})
    asked = ask(framework_imports, host)
    host.close()
    (finding,) = asked.findings
    assert finding.message.startswith("import acme fails: ")
    assert "cannot import name 'Trainer' from 'acme'" in finding.evidence[0]


def test_the_deadline_comes_first() -> None:
    """Of what was not tried nothing is known."""
    document = {"seconds": 1.0, "bytes": 1, "versions": {"torch": "2.13.0"}}
    hung = ends(ended="timeout", seconds=1.0)([])
    asked_ = asked(framework_imports, each(document, hung), "torch", "trl", until=0.0)
    assert asked_.status is Status.UNKNOWN and "trl" in (asked_.reason or "")
