"""The trainers' stack upon the frameworks: judged as they are, and no more of it than is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.checks.python.stack_machine import site

from npudoctor import Severity, Status
from npudoctor.checks.python.framework_modules import framework_modules
from npudoctor.checks.python.package_files import package_files as files_check
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.facts.python.frameworks import installed_job_distributions
from npudoctor.runner.description import describe_target
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, link, package_files, unreadable

Package = tuple[str, ...]
TOKENIZERS: Package = ("tokenizers", "0.23.3", "huggingface-hub<3.0,>=0.16.4")
HUB: Package = ("huggingface_hub", "2.4.0", "hf-xet>=1.6.0", "pyyaml>=5.1")
YAML: Package = ("PyYAML", "6.0.4")
SYMPY: Package = ("sympy", "1.14.0")
TRANSFORMERS: Package = (
    *("transformers", "5.24.0", "tokenizers<0.24.0,>=0.23.1", "huggingface-hub<3.0,>=1.31.0"),
    *("pyyaml>=5.1", "typer"),
)
PSUTIL: Package = ("psutil", "7.2.2")
ACCELERATE: Package = ("accelerate", "1.15.0", "psutil", "pyyaml", "huggingface-hub>=0.21.0")
TRL: Package = ("trl", "1.16.0", "accelerate>=1.10.1", "psutil>=5.9.4", "transformers>=4.56.2")
WELL = (
    *(TOKENIZERS, HUB, YAML, SYMPY, TRANSFORMERS, PSUTIL, ACCELERATE, TRL),
    *(("hf-xet", "1.8.0"), ("typer", "0.29.2")),
)
LIB = "/opt/lib"


def installed(*packages: Package) -> dict[str, Content]:
    made: dict[str, Content] = {}
    for name, version, *requires in packages:
        made.update(package_files(name, version, *(f"Requires-Dist: {one}" for one in requires)))
    return made


def without(*names: str) -> dict[str, Content]:
    return installed(*(one for one in WELL if one[0] not in names))


def weights(asked: Asked) -> list[tuple[str, object, str]]:
    return [(one.code, one.severity, one.message) for one in asked.findings]


def test_quiet_when_well() -> None:
    asked = ask(package_requirements, fake_host(installed(*WELL)))
    assert (asked.status, asked.codes) == (Status.OK, [])
    roots = asked.facts["frameworks"]
    assert roots == {"accelerate": "1.15.0", "transformers": "5.24.0", "trl": "1.16.0"}
    assert describe_target(fake_host(installed(*WELL))).frameworks == roots


@pytest.mark.parametrize("gone", ["tokenizers", "huggingface_hub", "PyYAML", "transformers", "accelerate"])
def test_what_the_imports_cannot_do_without(gone: str) -> None:
    asked = ask(package_requirements, fake_host(without(gone)))
    ((code, severity, message),) = weights(asked)
    assert (code, severity) == ("package-requirements.missing", Severity.ERROR)
    assert f"but {gone.lower().replace('_', '-')} is not installed" in message


@pytest.mark.parametrize("gone", ["typer", "hf-xet"])
def test_what_they_were_seen_to_do_without(gone: str) -> None:
    ((_code, severity, _message),) = weights(ask(package_requirements, fake_host(without(gone))))
    assert severity is Severity.WARNING


def test_who_cannot_do_without_it_is_named() -> None:
    """accelerate 1.15.0 imports without psutil, which trl 1.16.0 does not."""
    ((_code, severity, message),) = weights(ask(package_requirements, fake_host(without("psutil"))))
    assert severity is Severity.ERROR and message.startswith("trl 1.16.0 requires psutil>=5.9.4")
    ((_code, severity, message),) = weights(ask(package_requirements, fake_host(without("psutil", "trl"))))
    assert severity is Severity.WARNING and message.startswith("accelerate 1.15.0 requires psutil")


def test_sympy_which_only_a_lazy_part_needs() -> None:
    (finding,) = ask(package_requirements, fake_host(without("sympy"))).findings
    assert finding.severity is Severity.ERROR
    assert any("from transformers import Trainer fails" in line for line in finding.evidence)


def test_versions_that_the_package_compares_itself() -> None:
    old = installed(*(one for one in WELL if one[0] != "tokenizers"), ("tokenizers", "0.19.1"))
    (finding,) = ask(package_requirements, fake_host(old)).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands[0].endswith("trl==1.16.0 'tokenizers<0.24.0,>=0.23.1'"), "no more than needed"
    # trl does not look at the version of accelerate when it is imported.
    old = installed(
        *(one for one in WELL if one[0] != "accelerate"), ("accelerate", "1.0.0", *ACCELERATE[2:])
    )
    (finding,) = ask(package_requirements, fake_host(old)).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", Severity.WARNING)


def test_what_nobody_tried_is_a_warning() -> None:
    (finding,) = ask(package_requirements, fake_host(installed(("verl", "0.9", "codetiming")))).findings
    assert (finding.code, finding.severity) == ("package-requirements.missing", Severity.WARNING)


def test_metadata_that_cannot_be_read_is_unknown() -> None:
    closed = {f"{SITE}/trl-1.16.0.dist-info/METADATA": unreadable()}
    assert ask(package_requirements, fake_host({**without("trl"), **closed})).status is Status.UNKNOWN


@pytest.mark.parametrize("tried", [True, False])
def test_a_package_of_a_site(tmp_path: Path, tried: bool) -> None:
    row = f"""[[frameworks.trainers]]
distribution = "Acme_Trainer"
modules = "acme_trainer"
imports = "import acme_trainer"
tried = {str(tried).lower()}
source = "ours"
as_of = "2026-11"
"""
    own = installed(("acme-trainer", "1.0", "acme-data"))
    assert ask(package_requirements, fake_host(own)).status is Status.SKIPPED
    asked = ask(package_requirements, fake_host(own, knowledge=site(tmp_path / "k", row)))
    ((_code, severity, _message),) = weights(asked)
    assert severity is (Severity.ERROR if tried else Severity.WARNING)
    broken = site(tmp_path / "k", row.replace("import acme_trainer", "acme_trainer()"))
    codes = ask(package_requirements, fake_host(installed(*WELL), knowledge=broken)).codes
    assert codes == ["package-requirements.site-table"]


@pytest.mark.parametrize(
    ("folder", "counts"),
    [(LIB, False), ("/opt/env/lib/python3.11/site-packages", True)],
)
def test_a_folder_of_the_job_that_has_such_a_name(folder: str, counts: bool) -> None:
    """Research code has datasets/ and swift/ of its own; an image may have removed metadata to save space."""
    host = fake_host({f"{folder}/datasets/__init__.py": "x = 1\n"}, search_path=(folder, SITE))
    assert [one.name for one in installed_job_distributions(host)] == (["datasets"] if counts else [])


def with_record(name: str, version: str, *paths: str) -> dict[str, Content]:
    text = "".join(f"{path},sha256=x,6\n" for path in paths)
    return {
        **package_files(name, version),
        f"{SITE}/{name}-{version}.dist-info/RECORD": text,
        **{f"{SITE}/{path}": "x = 1\n" for path in paths},
    }


DATASETS = with_record("datasets", "5.2.0", "datasets/__init__.py", "datasets/load.py", "datasets/info.py")


@pytest.mark.parametrize("gone", ["datasets/__init__.py", "datasets/load.py"])
def test_files_that_are_gone(gone: str) -> None:
    assert ask(files_check, fake_host(DATASETS)).codes == []
    left = {path: text for path, text in DATASETS.items() if path != f"{SITE}/{gone}"}
    (finding,) = ask(files_check, fake_host(left)).findings
    assert (finding.code, finding.severity) == ("package-files.missing", Severity.ERROR)


def test_an_image_without_what_is_named_as_a_test() -> None:
    """accelerate 1.15.0 was seen to work without; torch imports torch/testing."""
    for name, severity in (("accelerate", Severity.WARNING), ("torch", Severity.ERROR)):
        path = f"{name}/test_utils/__init__.py"
        whole = with_record(name, "1.15.0", f"{name}/__init__.py", path, f"{name}/x.py")
        (finding,) = ask(
            files_check, fake_host({p: text for p, text in whole.items() if p != f"{SITE}/{path}"})
        ).findings
        assert (finding.code, finding.severity) == ("package-files.missing", severity)


def test_a_test_that_nothing_imports_may_be_gone() -> None:
    path = "accelerate/commands/test.py"
    whole = with_record("accelerate", "1.15.0", "accelerate/__init__.py", path, "accelerate/x.py")
    left = {name: text for name, text in whole.items() if name != f"{SITE}/{path}"}
    assert ask(files_check, fake_host(left)).codes == []


def hidden(asked: Asked) -> list[object]:
    assert set(asked.codes) <= {"framework-modules.hidden"}
    return [one.severity for one in asked.findings]


def test_another_package_of_the_name() -> None:
    """Where the job starts: a warning, unless another one of the stack imports it, as trl does."""

    def told(files: Mapping[str, Content], **more: object) -> Asked:
        return ask(framework_modules, fake_host({**DATASETS, **files}, **more))  # type: ignore[arg-type]

    own: dict[str, Content] = {
        "/proc/self/cwd": link("/job"),
        "/job/datasets/__init__.py": "class Mine: ...\n",
    }
    assert hidden(told({})) == []
    assert hidden(told(own)) == [Severity.WARNING]
    assert hidden(told({**own, **installed(TRL)})) == [Severity.ERROR]
    in_front: dict[str, Content] = {f"{LIB}/datasets/__init__.py": "class Mine: ...\n"}
    path = {"search_path": (LIB, SITE), "variables": {"PYTHONPATH": LIB}}
    assert hidden(told(in_front, **path)) == [Severity.ERROR]
