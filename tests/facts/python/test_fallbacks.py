"""Which missing modules packages do without, as their sources say."""

from __future__ import annotations

from typing import Optional

import pytest

from npudoctor import Severity
from npudoctor.checks.python.package_files import package_files as check
from npudoctor.host.python.import_kinds import FIRM, LATER, TRIED, TRIED_LATER, list_import_kinds
from npudoctor.testing import SITE, Content, ask, fake_host, package_files

LIBRARY = "yaml/_yaml.cpython-311-x86_64-linux-gnu.so"
TRYING = "try:\n    from .cyaml import *\nexcept ImportError:\n    pass\n"
FALLBACK = {"yaml/__init__.py": TRYING, "yaml/cyaml.py": "from yaml._yaml import CParser\n"}
PROTOBUF = """
def _CanImport(name):
  try:
    return bool(importlib.import_module(name))
  except ImportError:
    return False
if _CanImport('yaml._yaml'):
  kind = 'c'
if kind == 'c':
  from yaml import _yaml
"""


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import a.b", FIRM),
        ("from a import b", FIRM),
        ("from .b import c", FIRM),
        ("class A:\n    from a import b", FIRM),
        ("if X:\n    import a.b", LATER),
        ("def f():\n    import a.b", LATER),
        ("def f():\n    try:\n        import a.b\n    except ImportError:\n        pass", TRIED_LATER),
        ("import importlib\nimportlib.import_module('a.b')", FIRM),
        ("__import__('a.b')", FIRM),
        ("importlib.import_module('.b', __package__)", FIRM),
        ("try:\n    import a.b\nexcept ImportError:\n    pass", TRIED),
        ("try:\n    if X:\n        import a.b\nexcept (ImportError, OSError):\n    pass", TRIED),
        ("try:\n    import a.b\nexcept Exception as e:\n    b = None", TRIED),
        ("try:\n    import a.b\nexcept:\n    b = None", TRIED),
        ("with contextlib.suppress(ImportError):\n    import a.b", TRIED),
        ("try:\n    pass\nexcept ImportError:\n    import a.b", FIRM),
        ("try:\n    import a.b\nexcept ImportError as e:\n    print(e)\n    raise", FIRM),
        ("try:\n    import a.b\nexcept ImportError as e:\n    raise RuntimeError() from e", FIRM),
        ("try:\n    import a.b\nexcept ImportError:\n    sys.exit('no b')", FIRM),
        ("try:\n    import a.b\nexcept AttributeError:\n    pass", FIRM),
        ("try:\n    import a.b\nfinally:\n    pass", FIRM),
        ("if TYPE_CHECKING:\n    import a.b", ""),
        ("text = 'import a.b'", ""),
        (PROTOBUF.replace("yaml._yaml", "a.b").partition("if kind")[0], TRIED),
    ],
)
def test_kinds(source: str, kind: str) -> None:
    kinds = [how for name, how in list_import_kinds(source, "a", True) if name == "a.b"]
    assert kinds == ([kind] if kind else [])


def severity(sources: dict[str, str], user: str = "import yaml", gone: str = LIBRARY) -> Severity:
    """How grave it is that a library of PyYAML, which transformers requires, is gone."""
    listed = [*sources, gone]
    files: dict[str, Content] = {
        **package_files("transformers", "5.24.0", "Requires-Dist: PyYAML"),
        **package_files("PyYAML", "6.0"),
        f"{SITE}/transformers/__init__.py": user,
        f"{SITE}/transformers-5.24.0.dist-info/RECORD": f"transformers/__init__.py,sha256=x,{len(user)}\n",
        f"{SITE}/PyYAML-6.0.dist-info/RECORD": "".join(
            f"{path},sha256=x,{len(sources.get(path, 'library'))}\n" for path in listed
        ),
        **{f"{SITE}/{path}": text for path, text in sources.items()},
    }
    (finding,) = ask(check, fake_host(files)).findings
    assert finding.code == "package-files.missing" and finding.evidence == (f"{SITE}/{gone}",)
    assert finding.severity is not None
    return finding.severity


@pytest.mark.parametrize(
    "sources",
    [
        FALLBACK,
        {"yaml/__init__.py": TRYING.replace("cyaml", "_yaml")},
        {"yaml/__init__.py": PROTOBUF},
        # Tried here, and imported there where that went well, as multidict does.
        {
            "yaml/__init__.py": "if USE:\n    from ._yaml import a\nelse:\n    from ._py import a\n",
            "yaml/_compat.py": TRYING.replace("cyaml", "_yaml"),
        },
        # Who imports it firmly is imported by nobody.
        {**FALLBACK, "_yaml/__init__.py": "from yaml._yaml import *\n"},
        # Its own source is there.
        {"yaml/__init__.py": "from . import _yaml\n", "yaml/_yaml.py": "a = 1\n"},
    ],
)
def test_what_is_done_without(sources: dict[str, str]) -> None:
    assert severity(sources) is Severity.WARNING


@pytest.mark.parametrize(
    ("sources", "user"),
    [
        ({"yaml/__init__.py": "from ._yaml import *\n"}, "import yaml"),
        # Nobody tries: it may be imported by a compiled module.
        ({"yaml/__init__.py": "import os\n"}, "import yaml"),
        ({"yaml/__init__.py": "def load():\n    import yaml._yaml\n"}, "import yaml"),
        # By a part of the package that somebody imports firmly, or later.
        ({**FALLBACK, "yaml/main.py": "import yaml.cyaml\n", "yaml/a.py": "from . import main\n"}, ""),
        ({**FALLBACK, "yaml/load.py": "def load():\n    import yaml.cyaml\n"}, ""),
        # What requires it does not try.
        (FALLBACK, "import yaml.cyaml\n"),
    ],
)
def test_what_is_needed(sources: dict[str, str], user: str) -> None:
    assert severity(sources, user) is Severity.ERROR


def test_a_framework_must_try_wherever_it_imports() -> None:
    sources = {
        "torch/__init__.py": "if X:\n    from ._x import a\n",
        "torch/_compat.py": "try:\n    from ._x import a\nexcept ImportError:\n    pass\n",
    }
    for more, said in (({}, Severity.ERROR), ({"torch/__init__.py": "import os\n"}, Severity.WARNING)):
        own = {**sources, **more}
        record = "".join(f"{path},sha256=x,{len(text)}\n" for path, text in own.items())
        files: dict[str, Content] = {
            **package_files("torch", "2.13.0"),
            f"{SITE}/torch-2.13.0.dist-info/RECORD": f"{record}torch/_x.so,sha256=x,9\n",
            **{f"{SITE}/{path}": text for path, text in own.items()},
        }
        (finding,) = ask(check, fake_host(files)).findings
        assert finding.severity is said


TRY = "try:\n    import setuptools\nexcept ImportError:\n    pass\n"


@pytest.mark.parametrize("content", [None, "", "x", "\0" * 9, "def f("])
@pytest.mark.parametrize(
    ("user", "torch", "gone", "spoiled"),
    [
        ("", "def f():\n    import setuptools\n", Severity.WARNING, Severity.WARNING),
        # A source that cannot be read ends what expects that the module may be missing.
        ("", TRY, Severity.WARNING, Severity.ERROR),
        # Of two that require it one is not known to do without.
        ("other", "", Severity.ERROR, Severity.ERROR),
    ],
)
def test_damage_to_what_the_import_does_without(
    content: Optional[str], user: str, torch: str, gone: Severity, spoiled: Severity
) -> None:
    requirements = [f"Requires-Dist: {name}" for name in ("setuptools", *filter(None, [user]))]
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0", *requirements),
        f"{SITE}/torch-2.13.0.dist-info/RECORD": f"torch/__init__.py,sha256=x,{len(torch)}\n",
        f"{SITE}/torch/__init__.py": torch,
        **package_files("setuptools", "81.0.0"),
        f"{SITE}/setuptools-81.0.0.dist-info/RECORD": "setuptools/__init__.py,sha256=x,9\n",
    }
    if user:
        files.update(package_files("other", "1.0", "Requires-Dist: setuptools"))
    if content is not None:
        files[f"{SITE}/setuptools/__init__.py"] = content
    findings = ask(check, fake_host(files)).findings
    assert findings
    for finding in findings:
        if finding.code != "package-files.changed":
            assert finding.severity is (gone if content is None else spoiled)


def test_a_library_beside_its_source_that_another_one_was_compiled_against() -> None:
    sources = {"yaml/__init__.py": "from . import _yaml\n", "yaml/_yaml.py": "a = 1\n"}
    other = {"yaml/more.so": "\x7fELF yaml._yaml\0"}
    assert severity({**sources, **other}) is Severity.ERROR
    assert severity({**sources, "yaml/more.so": "\x7fELF yaml.yaml\0"}) is Severity.WARNING


@pytest.mark.parametrize(
    ("gone", "init", "said"),
    [
        # Beside the package, and nobody imports it.
        ("_foo.cpython-311-x86_64-linux-gnu.so", "", "warning"),
        ("_foo.cpython-311-x86_64-linux-gnu.so", "import _foo\n", "error"),
        # As cffi does with its _cffi_backend.
        ("_foo.cpython-311-x86_64-linux-gnu.so", "def load():\n    import _foo as backend\n", "error"),
        # A name that others may import by theirs.
        ("foo.cpython-311-x86_64-linux-gnu.so", "", "error"),
        ("torch/ma/testutils.py", "", ""),
        ("torch/ma/testutils.py", "from torch.ma import testutils\n", "error"),
        ("torch/ma/utils.py", "", "error"),
    ],
)
def test_what_people_leave_behind_is_judged_by_who_imports_it(gone: str, init: str, said: str) -> None:
    sources = {"torch/__init__.py": init, "torch/ma/__init__.py": "a = 1\n"}
    record = "".join(f"{path},sha256=x,{len(text)}\n" for path, text in [*sources.items(), (gone, "x")])
    files: dict[str, Content] = {
        **package_files("torch", "2.9.0"),
        f"{SITE}/torch-2.9.0.dist-info/RECORD": record,
        **{f"{SITE}/{path}": text for path, text in sources.items()},
    }
    findings = ask(check, fake_host(files)).findings
    assert [(one.severity or Severity.ERROR).name.lower() for one in findings] == ([said] if said else [])
