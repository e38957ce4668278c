"""Shells whose variables let Python start, or do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.python.python_variables import CCACHE, python_variables
from npudoctor.facts.python.framework_values import NAMES as OF_FRAMEWORKS
from npudoctor.facts.python.framework_values import ROWS
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files

BASE = "/opt/python/lib"
MODULE = "lib-dynload/_struct.cpython-311-x86_64-linux-gnu.so"
PATH = (f"{BASE}/python3.11", f"{BASE}/python3.11/lib-dynload", SITE)
PADDLE: dict[str, Content] = {
    **package_files("paddlepaddle", "3.3.1"),
    f"{SITE}/{CCACHE[0]}": f'warnings.warn("{CCACHE[1]}")\n',
}


def python(lib: str = BASE, version: str = "3.11", modules: bool = True) -> dict[str, Content]:
    """A standard library."""
    found: dict[str, Content] = {f"{lib}/python{version}/os.py": ""}
    if modules:
        found[f"{lib}/python{version}/{MODULE}"] = ""
    return found


def refusing() -> dict[str, Content]:
    """The lines of each release by which it is known that it refuses some values."""
    found: dict[str, Content] = {}
    for row in ROWS:
        same = [other.words for other in ROWS if other.file == row.file]
        found[f"{SITE}/{row.file}"] = "\n".join(same)
        found.update(package_files(row.distributions[0], "2.13.0"))
    names = f"{SITE}/torch/_logging/_registrations.py"
    return {**found, names: 'register_log("dynamo", "torch._dynamo")\n'}


REFUSING = refusing()


def judge(variables: Mapping[str, str], files: Optional[Mapping[str, Content]] = None, **more: Any) -> Asked:
    """Python 3.11 in /opt/python, under these variables."""
    more = {"search_path": PATH, **more}
    return ask(python_variables, fake_host({**python(), **(files or {})}, variables=variables, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way of putting it, each ending."""
    yield judge({"PYTHONHOME": "/opt/python"}, python_version="")
    yield judge({"PYTHONHOME": "/nowhere"})
    yield judge({"PYTHONPLATLIBDIR": "lib64"})
    environment: dict[str, Content] = {"/env/pyvenv.cfg": "home = /opt/python/bin\n", "/env/bin/python3": ""}
    yield judge({"PYTHONEXECUTABLE": "/usr/bin/python3"}, environment, python="/env/bin/python3")
    yield judge({"PYTHONWARNINGS": "error"}, PADDLE)
    for name in OF_FRAMEWORKS:
        yield judge({name: "%("}, REFUSING)
    yield judge({"GLOG_logtostderr": "0"}, REFUSING)
    yield judge({"TORCH_LOGS_OUT": "/nowhere/log"}, REFUSING)
    yield judge({"PYTORCH_JIT": ""}, REFUSING)
    for name in ("PYTHONHASHSEED", "PYTHONUTF8", "PYTHONMALLOC", "PYTHONIOENCODING", "PYTHONTRACEMALLOC"):
        yield judge({name: "what"})
    newer: dict[str, Any] = {"python_version": "3.13.0"}
    for name in ("PYTHONINTMAXSTRDIGITS", "PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"):
        yield judge({name: "what"}, **newer)
