"""package-files: what a killed pip, a slimmed image and a full disk leave."""

from __future__ import annotations

import base64
import hashlib
import marshal
import sys
from typing import Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.package_files import package_files as check
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.testing import SITE, Asked, Content, Node, ask, fake_host, package_files

TORCH = "2.13.0"
INFO, STASHED = f"{SITE}/torch-{TORCH}.dist-info", f"{SITE}/~orch-{TORCH}.dist-info"
SOURCES = {"torch/__init__.py": "from torch.nn import Linear\n", "torch/nn.py": "class Linear: ...\n"}
RECORD = "".join(f"{path},sha256=x,{len(text)}\n" for path, text in SOURCES.items())
METADATA = f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n"
TRANSFORMERS: dict[str, Content] = {
    **package_files("transformers", "5.24.0"),
    f"{SITE}/transformers-5.24.0.dist-info/RECORD": "transformers/__init__.py,sha256=x,0\n",
    f"{SITE}/transformers/__init__.py": "",
}


def files_of(sources: dict[str, str], **more: Content) -> dict[str, Content]:
    """Sources in the folder for packages, and other files there."""
    return {f"{SITE}/{path}": text for path, text in {**sources, **more}.items()}


def installed(record: str = RECORD, sources: Optional[dict[str, str]] = None) -> dict[str, Content]:
    """A torch with its metadata."""
    own = SOURCES if sources is None else sources
    return {**package_files("torch", TORCH), f"{INFO}/RECORD": record, **files_of(own)}


def stopped(sources: dict[str, str], metadata: bool = False, record: str = RECORD) -> dict[str, Content]:
    """What pip moved aside, and what of the package is there; `metadata`: the new one's, without its list."""
    files: dict[str, Content] = {f"{STASHED}/METADATA": METADATA, f"{STASHED}/RECORD": record}
    files[f"{SITE}/~orch/__init__.py"] = ""
    if metadata:
        files[f"{INFO}/METADATA"] = METADATA
    return {**files, **files_of(sources)}


@pytest.mark.parametrize(
    ("sources", "metadata", "beside", "severity", "words"),
    [
        # Moved away, and nothing is there.
        ({}, False, {}, Severity.ERROR, "itself is missing"),
        # Killed while it wrote: a part, a part and the metadata, a file that is cut.
        ({"torch/__init__.py": SOURCES["torch/__init__.py"]}, False, {}, Severity.ERROR, "is incomplete"),
        (SOURCES, True, {}, Severity.ERROR, "is incomplete"),
        ({**SOURCES, "torch/nn.py": ""}, False, {}, Severity.ERROR, "is incomplete"),
        # The metadata alone was moved: torch works without, transformers does not.
        (SOURCES, False, {}, Severity.WARNING, "its metadata is not"),
        (SOURCES, False, TRANSFORMERS, Severity.ERROR, "its metadata is not"),
    ],
)
def test_a_killed_pip(
    sources: dict[str, str], metadata: bool, beside: dict[str, Content], severity: Severity, words: str
) -> None:
    asked = ask(check, fake_host({**stopped(sources, metadata), **beside}))
    (finding,) = [one for one in asked.findings if one.code == "package-files.interrupted"]
    assert finding.severity is severity and words in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (
        f"/usr/bin/python3 -m pip install --force-reinstall --no-deps torch=={TORCH}",
        f"rm -r '{STASHED}' '{SITE}/~orch'",
    )
    others = [one for one in asked.findings if one is not finding]
    assert all("package-files.interrupted" in one.echo_of for one in others), "one cause"


def test_a_finished_install_beside_leftovers_is_well() -> None:
    (finding,) = ask(check, fake_host({**stopped({}), **installed()})).findings
    assert (finding.code, finding.severity) == ("package-files.interrupted", Severity.INFO)


def test_leftovers_by_other_names() -> None:
    """pip takes more letters where the first name is in use, and moves other folders of it too."""
    record = RECORD + "functorch/__init__.py,sha256=x,9\n"
    files = {**stopped({}, record=record), **files_of({"~unctorch/__init__.py": "", "~-rch/a.py": ""})}
    (finding,) = ask(check, fake_host(files)).findings
    assert {f"{SITE}/~unctorch", f"{SITE}/~orch", STASHED} <= set(finding.evidence)
    empty = {f"{SITE}/~orch-{TORCH}.dist-info/METADATA": "", f"{SITE}/~orch/__init__.py": ""}
    (finding,) = ask(check, fake_host(empty)).findings
    assert finding.fix is not None and f"torch=={TORCH}" in finding.fix.commands[0]
    other: dict[str, Content] = {
        f"{SITE}/~yproject-1.0.dist-info/METADATA": "Name: myproject\nVersion: 1.0\n"
    }
    assert ask(check, fake_host({**installed(), **other})).codes == [], "nobody imports that"


def test_what_requires_it_is_an_echo() -> None:
    files = {
        **package_files("torch", TORCH, "Requires-Dist: numpy"),
        **package_files("torch-npu", "2.13.0", "Requires-Dist: numpy"),
        f"{SITE}/~umpy-2.4.6.dist-info/METADATA": "Name: numpy\nVersion: 2.4.6\n",
        f"{SITE}/~umpy/__init__.py": "",
    }
    assert ask(check, fake_host(files)).codes == ["package-files.interrupted"]
    (finding,) = ask(package_requirements, fake_host(files)).findings
    assert "package-files.interrupted" in finding.echo_of


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("_C.so", "version.py"), True),
        (tuple(f"m{number}.py" for number in range(20)), True),
        (("mine.py",), False),  # what somebody left in a folder of this name
        (("__init__.py", "_C.so"), False),
    ],
)
def test_a_folder_with_the_name_of_a_framework(names: tuple[str, ...], said: bool) -> None:
    """Whatever the metadata says: here there is none."""
    files = {**files_of({f"torch/{name}": "" for name in names}), f"{SITE}/other/__init__.py": ""}
    asked = ask(check, fake_host(files))
    assert asked.codes == (["package-files.missing"] if said else [])
    for finding in asked.findings:
        assert finding.severity is Severity.ERROR and f"{SITE}/torch" in finding.message
        assert finding.fix is not None and finding.fix.commands[0].endswith(" torch")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from torch import nn, testing\n", True),
        ("import torch.testing._creation as creation\n", True),
        ("from . import (\n    nn,\n    testing,  # for users\n)\n", True),
        ("import os\n", False),
        ("try:\n    import torch.testing\nexcept ImportError:\n    pass\n", False),
        ("def f():\n    import torch.testing\n", False),
        ('"""How to\nimport torch.testing\n"""\n', False),
    ],
)
def test_an_image_without_tests(text: str, said: bool) -> None:
    """`find -name 'test*'` takes torch.testing, which torch imports; other tests nobody does."""
    sources = {"torch/__init__.py": text, "torch/nn.py": "x = 1\n"}
    record = "".join(f"{path},sha256=x,{len(content)}\n" for path, content in sources.items())
    record += "torch/testing/__init__.py,sha256=x,9\ntorch/testing/_creation.py,sha256=x,9\n"
    record += (
        "torch/test_case.py,sha256=x,9\ntorch/tests/__init__.py,sha256=x,0\ntorch/tests/a.py,sha256=x,9\n"
    )
    asked = ask(check, fake_host(installed(record, sources)))
    assert asked.codes == (["package-files.missing"] if said else [])
    assert all("testing" in one.message and "torch/__init__.py" in one.message for one in asked.findings)


def test_a_helper_below_tests_that_is_imported() -> None:
    """numpy.testing imports numpy._core.tests._natype, whose folder has an empty __init__.py."""
    sources = {"torch/__init__.py": "from torch.tests.helper import x\n"}
    record = f"torch/__init__.py,sha256=x,{len(sources['torch/__init__.py'])}\n"
    record += (
        "torch/tests/__init__.py,sha256=x,0\ntorch/tests/a.py,sha256=x,9\ntorch/tests/helper.py,sha256=x,9\n"
    )
    assert ask(check, fake_host(installed(record, sources))).codes == ["package-files.missing"]
    there = {**sources, "torch/tests/helper.py": "x = 123\n\n", "torch/tests/__init__.py": ""}
    assert ask(check, fake_host(installed(record, there))).codes == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("def relu(): ...\n", ["package-files.cut-short"]),  # Linear was behind it
        ("class Linear: ...\n", []),  # shortened by hand
        ("def __getattr__(name): ...\n", []),  # its text does not tell
        ("globals()['Linear'] = 1\n", []),
        ("globals()['Conv'] = 1\n", ["package-files.cut-short"]),
        ("class Linear:\n    def f(self", ["package-files.spoiled"]),
    ],
)
def test_a_source_that_lost_its_end(text: str, codes: list[str]) -> None:
    record = RECORD.replace(f",{len(SOURCES['torch/nn.py'])}\n", ",99\n")
    asked = ask(check, fake_host(installed(record, {**SOURCES, "torch/nn.py": text})))
    assert asked.codes == codes
    assert all("torch/nn.py" in one.message for one in asked.findings)


@pytest.mark.parametrize(
    ("sources", "codes"),
    [
        (SOURCES, []),
        ({"torch/__init__.py": SOURCES["torch/__init__.py"]}, ["package-files.missing"]),
        ({**SOURCES, "torch/nn.py": ""}, ["package-files.cut-short"]),  # no room for its content
        ({**SOURCES, "torch/nn.py": "class Linear:\n  x = ("}, ["package-files.cut-short"]),
        ({"torch/__init__.py": "import sys\nsys.modules['torch.nn'] = sys\nfrom torch.nn import x\n"}, []),
        ({"torch/__init__.py": "from torch._C.sub import x\n", "torch/_C.abi3.so": ""}, []),
        ({"torch/__init__.py": "from torch.a import b\n", "torch/a/__init__.py": "", "torch/a/b.so": ""}, []),
    ],
)
def test_without_a_list_of_files_the_imports_tell(sources: dict[str, str], codes: list[str]) -> None:
    files = {**package_files("torch", TORCH), **files_of(sources)}
    asked = ask(check, fake_host(files))
    assert asked.codes == codes
    assert all(one.severity is Severity.ERROR for one in asked.findings)


def test_what_a_job_asks_of_a_lazy_package() -> None:
    """`import transformers` works with any of its parts gone."""
    files = {**package_files("transformers", "5.24.0"), f"{SITE}/transformers/__init__.py": "x = 1\n"}
    (finding,) = ask(check, fake_host(files)).findings
    assert finding.code == "package-files.missing" and "transformers.modeling_utils" in finding.message
    parts = {f"{SITE}/transformers/{name}.py": "x = 1\n" for name in ("modeling_utils", "trainer")}
    assert ask(check, fake_host({**files, **parts})).codes == []


@pytest.mark.parametrize(
    ("metadata", "beside", "said"),
    [
        ("", {}, Severity.WARNING),
        ("", TRANSFORMERS, Severity.ERROR),
        (None, TRANSFORMERS, Severity.ERROR),
        (None, {}, None),  # some images leave metadata out, and torch never looks
    ],
)
def test_metadata_that_is_empty_or_gone(
    metadata: Optional[str], beside: dict[str, Content], said: Optional[Severity]
) -> None:
    files = {**files_of(SOURCES), **beside}
    if metadata is not None:
        files[f"{INFO}/METADATA"] = metadata
    asked = ask(check, fake_host(files))
    code = "package-files.missing" if metadata is None else "package-files.cut-short"
    assert [(one.code, one.severity) for one in asked.findings] == ([(code, said)] if said else [])
    assert all(one.fix is not None and "torch" in one.fix.commands[0] for one in asked.findings)


def deep_torch(code: bytes, code_at: float, text: bytes, source_at: float) -> Asked:
    """A torch with a module deep in it, its byte code, and when each was written; its list at second 100."""
    path = "torch/nn/modules/linear.py"
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    files: dict[str, Content] = {
        **package_files("torch", TORCH),
        f"{INFO}/RECORD": Node(f"{path},sha256={digest},6\n".encode(), mtime=100),
        f"{SITE}/{path}": Node(text, mtime=source_at),
        f"{SITE}/torch/nn/modules/__pycache__/linear.cpython-311.pyc": Node(code, mtime=code_at),
    }
    return ask(check, fake_host(files, python_version="3.11.7"))


MAGIC = (3495).to_bytes(2, "little") + b"\r\n" + bytes(4)


@pytest.mark.parametrize(
    ("stamp", "code_at", "codes"),
    [(50, 150, ["package-files.spoiled"]), (50, 90, []), (51, 150, [])],
)
def test_byte_code_below_the_top(stamp: int, code_at: float, codes: list[str]) -> None:
    """Cut where its header is its source's; written with the package it is not read, as thousands are."""
    header = MAGIC + stamp.to_bytes(4, "little") + (6).to_bytes(4, "little")
    asked = deep_torch(header + marshal.dumps((1, 2))[:-2], code_at, b"x = 1\n", 50)
    assert asked.codes == codes


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only 3.11 compiles sources of 3.11")
@pytest.mark.parametrize(
    ("text", "source_at", "codes"),
    [
        (b"x = (\n", 150, ["package-files.spoiled"]),
        (b"x = 2\n", 150, []),  # patched
        (b"x = (\n", 90, []),  # nothing tells that it was written later
    ],
)
def test_another_source_of_the_same_size(text: bytes, source_at: float, codes: list[str]) -> None:
    asked = deep_torch(b"", 50, text, source_at)
    assert asked.codes == codes
    assert asked.status in (Status.OK, Status.PROBLEM)
