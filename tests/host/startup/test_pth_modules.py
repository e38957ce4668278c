"""A line of a .pth file that imports a module of its own folder: whether that can add to the search path."""

from __future__ import annotations

import pytest

from npudoctor.host.startup.pth_modules import imports_harmless_module
from npudoctor.host.startup.site_folders import read_site_folders
from npudoctor.testing import Content, fake_host, folder

SITE = "/opt/env/lib/python3.12/site-packages"
# In the form of numba-cuda's: a finder before Python's own, which sends one package's parts to another.
FINDER = """
import importlib
import importlib.abc
import pathlib
import sys
import warnings

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if "numba.cuda" in name:
            spec = importlib.util.find_spec("numba_cuda")
            if spec is None:
                warnings.warn("no numba_cuda")
            there = [one.replace("numba", str(pathlib.Path(one) / "cuda")) for one in path]
            for finder in sys.meta_path:
                found = finder.find_spec(name, there, target)
                if found is not None:
                    return found

sys.meta_path.insert(0, Finder())
"""


def told(source: str, line: str = "import _redirector", **more: Content) -> bool:
    files: dict[str, Content] = {SITE: folder(), f"{SITE}/_redirector.py": source, **more}
    return imports_harmless_module(fake_host(files).files, SITE, line)


@pytest.mark.parametrize("line", ["import _redirector", "import _redirector;", "import  _redirector\n"])
def test_a_finder_adds_no_folder(line: str) -> None:
    assert told(FINDER, line)


def test_its_file_is_no_unread_one() -> None:
    files: dict[str, Content] = {f"{SITE}/_redirector.py": FINDER, f"{SITE}/r.pth": "import _redirector\n"}
    reached = read_site_folders(fake_host(files).files, SITE)
    assert (reached.folders, reached.unread, reached.finders) == ((SITE,), (), ())


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.path.append('/opt/more')",
        "from sys import path; path.append('/opt/more')",
        "import sys as s; s.path.append('/opt/more')",
        "import sys\nt = sys\nt.path.append('/x')",
        "import sys\ndef f(m): m.path.append('/x')\nf(sys)",
        "import site; site.addsitedir('/opt/more')",
        "exec('import sys; sys.path.append(1)')",
        "import sys; getattr(sys, 'pa' 'th').append('/x')",
        "import os; os.environ['PYTHONPATH'] = '/x'",
        "import os; os.system('true')",
        "import subprocess",
        "import os; os.execv('/opt/more', ['x'])",
        "import os; os.posix_spawn('/opt/more', [], {})",
        'import typing\nclass A:\n    a: "print(1)"\ntyping.get_type_hints(A)',
        "import importlib; importlib.reload(importlib)",
        "from . import other",
        "import numba",
        "from importlib.util import *",
        "import importlib.util as u; u.spec_from_file_location('a', '/x/a.py')",
        "import importlib; importlib.import_module('elsewhere')",
        "import sys; sys.modules['site'].addsitedir('/x')",
        "__builtins__.exec('1')",
        "(",
        "x = '\0'",
    ],
)
def test_what_may_add_to_it_is_not_believed(source: str) -> None:
    assert not told(source)


@pytest.mark.parametrize(
    "line",
    [
        "import _redirector as r",
        "import _redirector, os",
        "import _redirector; x = 1",
        "import gone",
        "from _redirector import x",
    ],
)
def test_other_lines(line: str) -> None:
    assert not told(FINDER, line)


def test_what_comes_before_the_source() -> None:
    assert not told(FINDER, **{f"{SITE}/_redirector/__init__.py": ""})
    assert not told(FINDER, **{f"{SITE}/_redirector.cpython-312-x86_64-linux-gnu.so": ""})
    assert not told(FINDER + "#" * (1 << 18))
