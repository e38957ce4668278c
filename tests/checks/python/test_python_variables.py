"""python-variables: Python starts with the variables that it reads itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.python_variables import CCACHE, NAMES, find_valid_values, python_variables
from npudoctor.facts.python.framework_values import NAMES as OF_FRAMEWORKS
from npudoctor.facts.python.framework_values import ROWS
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

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


STAMPED = "/data/releases/2026-11-27T10:00:00/site"
RELEASE: dict[str, Content] = {f"{STAMPED}/einops/__init__.py": "", f"{STAMPED}/tool.py": ""}
KERAS: dict[str, Content] = {
    **package_files("keras", "3.15.1"),
    **package_files("tensorflow-cpu", "2.21.0"),
    f"{SITE}/tensorflow/__init__.py": "",
    f"{SITE}/numpy/__init__.py": "",
    f"{SITE}/keras/src/backend/__init__.py": 'elif backend() == "mlx":\nelse:\n"Unable to import backend"\n',
}


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
    yield judge({"PYTHONPATH": STAMPED}, RELEASE)
    yield judge({"PYTHONPATH": STAMPED}, {f"{STAMPED}/notes.txt": ""})
    yield judge({"KERAS_BACKEND": "theano"}, KERAS)
    yield judge({"KERAS_BACKEND": "jax"}, KERAS)
    newer: dict[str, Any] = {"python_version": "3.13.0"}
    for name in ("PYTHONINTMAXSTRDIGITS", "PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"):
        yield judge({name: "what"}, **newer)


ENVIRONMENT: dict[str, Content] = {
    "/env/pyvenv.cfg": "home = /opt/python/bin\n",
    "/env/bin/python3": "",
    "/usr/bin/python3": "",
}
VALUES = [
    *("PYTHONHASHSEED=random", "PYTHONHASHSEED=0", "PYTHONHASHSEED=4294967296", "PYTHONHASHSEED=-1"),
    *("PYTHONMALLOC=debug", "PYTHONMALLOC=jemalloc", "PYTHONUTF8=1", "PYTHONUTF8=true", "PYTHONUTF8=0"),
    *("PYTHONIOENCODING=utf-8:replace", "PYTHONIOENCODING=:strict", "PYTHONIOENCODING=utf9"),
    *("PYTHONTRACEMALLOC=1", "PYTHONTRACEMALLOC=yes", "PYTHONTRACEMALLOC=99999", "PYTHON_GIL=yes"),
    *("PYTHONINTMAXSTRDIGITS=0", "PYTHONINTMAXSTRDIGITS=640", "PYTHON_CPU_COUNT=default"),
    *("PYTHON_CPU_COUNT=0", "PYTHON_CPU_COUNT=2", "PYTHON_FROZEN_MODULES=on", "PYTHON_FROZEN_MODULES=no"),
]


@pytest.mark.parametrize("line", VALUES)
def test_as_this_python_does(line: str) -> None:
    """Python itself is asked whether it starts."""
    name, _equals, value = line.partition("=")
    variables = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", ""], env={**variables, name: value}, capture_output=True, check=False
    )
    assert (find_valid_values(name, value, sys.version_info[:2], False) is None) is (done.returncode == 0), (
        done.stderr
    )


@pytest.mark.parametrize("name", NAMES)
def test_values_that_it_does_not_start_with(name: str) -> None:
    (finding,) = judge({name: "what"}, python_version="3.13.1").findings
    assert (finding.code, finding.severity) == ("python-variables.bad-value", Severity.ERROR)
    assert finding.message.startswith(f"{name} is what")
    assert finding.fix is not None
    assert finding.fix.commands == (f"unset {name}",)
    assert judge({name: ""}, python_version="3.13.1").codes == []


def test_what_older_releases_do_not_read() -> None:
    for name in ("PYTHON_GIL", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"):
        assert judge({name: "what"}).codes == []
    assert judge({"PYTHONINTMAXSTRDIGITS": "5"}, python_version="3.9.2").codes == []
    free = ("/opt/python/lib/python3.13t",)
    assert judge({"PYTHON_GIL": "0"}, python_version="3.13.0", search_path=free).codes == []
    assert judge({"PYTHON_GIL": "0"}, python_version="3.13.0").codes == ["python-variables.bad-value"]


@pytest.mark.parametrize(
    "files", [{}, python("/opt/other/lib", "3.9"), python("/opt/other/lib", modules=False)]
)
def test_home_of_another_python(files: dict[str, Content]) -> None:
    (finding,) = judge({"PYTHONHOME": "/opt/other"}, files).findings
    assert (finding.code, finding.severity) == ("python-variables.no-standard-library", Severity.ERROR)
    assert "/opt/other/lib/python3.11" in finding.message


@pytest.mark.parametrize("lib", ["/opt/other/lib", "/opt/other/lib64"])
def test_home_of_a_like_python(lib: str) -> None:
    """Its own too; and one in a zip, of a Python that has its modules built in."""
    assert judge({"PYTHONHOME": "/opt/other"}, python(lib)).codes == []
    assert judge({"PYTHONHOME": "/opt/python"}).codes == []
    zipped: dict[str, Content] = {"/opt/other/lib/python311.zip": ""}
    assert judge({"PYTHONHOME": "/opt/other"}, zipped, search_path=PATH[:1]).codes == []


def test_two_folders_of_home() -> None:
    files = {**python("/a/lib", modules=False), f"/b/lib/python3.11/{'lib-dynload/x.so'}": ""}
    assert judge({"PYTHONHOME": "/a:/b"}, files).codes == ["python-variables.no-standard-library"]
    assert judge({"PYTHONHOME": "/a:/opt/python"}, files).codes == []


def test_platlibdir() -> None:
    assert judge({"PYTHONPLATLIBDIR": "lib"}).codes == []
    assert judge({"PYTHONPLATLIBDIR": "lib64"}).codes == ["python-variables.no-standard-library"]
    assert judge({"PYTHONPLATLIBDIR": "lib64"}, python(f"{BASE}64")).codes == []


def test_executable() -> None:
    led = {"PYTHONEXECUTABLE": "/usr/bin/python3"}
    asked = judge(led, ENVIRONMENT, python="/env/bin/python3")
    assert asked.codes == ["python-variables.hides-packages"]
    assert judge(led, ENVIRONMENT).codes == []  # no environment, whose packages could be hidden
    old = judge(led, ENVIRONMENT, python="/env/bin/python3", python_version="3.10.1")
    assert old.codes == []
    own = {"PYTHONEXECUTABLE": "/env/bin/python"}
    assert judge(own, ENVIRONMENT, python="/env/bin/python3").codes == []


@pytest.mark.parametrize("rule", ["error", "default,error", "e", "error::UserWarning", "error::Warning"])
def test_warnings_as_errors(rule: str) -> None:
    asked = judge({"PYTHONWARNINGS": rule, "PATH": "/usr/bin"}, PADDLE)
    assert asked.codes == ["python-variables.warnings-as-errors"]
    cached = {**PADDLE, "/usr/bin/ccache": ""}
    assert judge({"PYTHONWARNINGS": rule, "PATH": "/usr/bin"}, cached).codes == []
    assert judge({"PYTHONWARNINGS": rule}).codes == []


@pytest.mark.parametrize("rule", ["ignore", "", "error::DeprecationWarning", "error:::torch", "error:text"])
def test_other_rules_for_warnings(rule: str) -> None:
    assert judge({"PYTHONWARNINGS": rule}, PADDLE).codes == []


def test_skipped_and_cannot_tell() -> None:
    assert ask(python_variables, fake_host()).status is Status.SKIPPED
    assert judge({"PYTHONHOME": "/opt/other"}, {"/opt/other": unreadable()}).status is Status.UNKNOWN


REFUSED = [
    *("TORCH_LOGS=what", "TORCH_LOGS=help", "TORCH_LOGS=dynamo,", "TORCH_LOGS_OUT=/nowhere/log"),
    *("TORCH_LOGS_FORMAT=%(", "PYTORCH_JIT=OFF", "PYTORCH_JIT=", "TORCH_DISTRIBUTED_DEBUG=what"),
    *("GOMP_CPU_AFFINITY=what", "GLOG_v=9", "GLOG_v=03", "GLOG_stderrthreshold=what", "GLOG_logtostderr=2"),
    *("GLOG_logtostderr=0", "logger_maxBytes=1.5", "logger_backupCount=what", "FLAGS_prim_all=what"),
    *("FLAGS_prim_forward=", "FLAGS_prim_backward=2", "NUMPY_MADVISE_HUGEPAGE=", "NPY_PROMOTION_STATE=what"),
    *("PYTHONOPTIMIZE=2", "PYTHONOPTIMIZE=3", "TF_USE_LEGACY_KERAS=1", "TF_USE_LEGACY_KERAS=true"),
]
TAKEN = [
    *(
        "TORCH_LOGS=",
        "TORCH_LOGS=+dynamo, -all",
        "TORCH_LOGS=sys",
        "TORCH_LOGS_OUT=/log",
        "TORCH_LOGS_OUT=log",
    ),
    *("TORCH_LOGS_FORMAT=short", "TORCH_LOGS_FORMAT=%(message)s", "PYTORCH_JIT=True", "PYTORCH_JIT=0v"),
    *("TORCH_DISTRIBUTED_DEBUG=Info", "GOMP_CPU_AFFINITY=0-3 8,9 10-20:2", "GOMP_CPU_AFFINITY=", "GLOG_v= 3"),
    *("GLOG_v=", "GLOG_stderrthreshold=4", "GLOG_logtostderr=1", "logger_maxBytes=-1", "FLAGS_prim_all=True"),
    *("NUMPY_MADVISE_HUGEPAGE=1", "NPY_PROMOTION_STATE=legacy", "OMP_NUM_THREADS=what", "KMP_AFFINITY=what"),
    *("PYTHONOPTIMIZE=1", "PYTHONOPTIMIZE=yes", "PYTHONOPTIMIZE=", "TF_USE_LEGACY_KERAS=0"),
]


def framework_variables(line: str, files: Mapping[str, Content]) -> Asked:
    name, _equals, value = line.partition("=")
    return judge({name: value}, files)


@pytest.mark.parametrize("line", REFUSED)
def test_a_value_that_a_framework_refuses(line: str) -> None:
    (finding,) = framework_variables(line, REFUSING).findings
    assert (finding.code, finding.severity) == ("python-variables.framework-refuses", Severity.ERROR)
    assert finding.fix is not None and finding.fix.commands == (f"unset {line.partition('=')[0]}",)
    assert framework_variables(line, {}).codes == []  # no framework is here that would


@pytest.mark.parametrize("line", TAKEN)
def test_a_value_that_the_frameworks_take(line: str) -> None:
    assert framework_variables(line, REFUSING).codes == []


def test_the_old_keras_is_installed() -> None:
    there = {**REFUSING, f"{SITE}/tf_keras/__init__.py": ""}
    assert framework_variables("TF_USE_LEGACY_KERAS=1", there).codes == []


def test_logs_of_a_release_that_tells_no_names() -> None:
    without = {path: "" if "_registrations" in path else text for path, text in REFUSING.items()}
    assert framework_variables("TORCH_LOGS=what", without).codes == []


def test_a_folder_with_colons_on_the_search_path() -> None:
    (finding,) = judge({"PYTHONPATH": f"/a:{STAMPED}:/b"}, RELEASE).findings
    assert (finding.code, finding.severity) == ("python-variables.hides-packages", Severity.ERROR)
    assert f"has the folder {STAMPED}" in finding.message and "einops, tool" in finding.message
    assert finding.fix is not None
    made = "/data/releases/2026-11-27T10-00-00-site"
    assert finding.fix.commands == (f"ln -s {STAMPED} {made}", f"export PYTHONPATH=/a:{made}:/b")


def test_a_folder_with_colons_whose_modules_are_found_elsewhere() -> None:
    elsewhere: dict[str, Content] = {f"{SITE}/einops/__init__.py": "", f"{SITE}/tool.py": ""}
    (finding,) = judge({"PYTHONPATH": STAMPED}, {**RELEASE, **elsewhere}).findings
    assert finding.severity is Severity.WARNING


def test_entries_that_are_no_parts_of_one_name() -> None:
    """Each exists, or their text together does not, or it is an image, whose variables nobody knows."""
    split: dict[str, Content] = {"/data/releases/2026-11-27T10/x.py": ""}
    assert judge({"PYTHONPATH": STAMPED}, {**RELEASE, **split}).status is Status.SKIPPED
    for value in ("/gone:/away", "/a::/b", f"{STAMPED}x", ""):
        assert judge({"PYTHONPATH": value}, RELEASE).status is Status.SKIPPED


def test_a_folder_with_colons_that_may_not_be_looked_into() -> None:
    assert judge({"PYTHONPATH": STAMPED}, {"/data/releases": unreadable()}).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("name", "words"), [("theano", "which this Keras does not know"), ("jax", "which is not installed")]
)
def test_a_back_end_that_keras_cannot_use(name: str, words: str) -> None:
    by_file = {"/home/ann/.keras/keras.json": f'{{"backend": "{name}"}}'}
    (of_variable,) = judge({"KERAS_BACKEND": name}, KERAS).findings
    (of_file,) = judge({"HOME": "/home/ann"}, {**KERAS, **by_file}).findings
    for finding, source in ((of_variable, "KERAS_BACKEND"), (of_file, "/home/ann/.keras/keras.json")):
        assert (finding.code, finding.severity) == ("python-variables.framework-refuses", Severity.ERROR)
        assert finding.message.startswith(f"{source} names the back end {name}") and words in finding.message
        assert finding.fix is not None and finding.fix.commands == ("export KERAS_BACKEND=tensorflow",)


@pytest.mark.parametrize("name", ["tensorflow", "numpy", "mlx", ""])
def test_a_back_end_that_keras_can_use(name: str) -> None:
    """One that only a newer Keras knows is among them."""
    assert judge({"KERAS_BACKEND": name}, KERAS).codes == []


def test_settings_of_keras_that_it_does_not_read() -> None:
    """The variable decides before the file; Keras 2 has no such refusal; what is no JSON is passed over."""
    theano, broken = '{"backend": "theano"}', '{"backend": "theano"'
    path, home = "/home/ann/.keras/keras.json", {"HOME": "/home/ann"}
    assert judge({**home, "KERAS_BACKEND": "tensorflow"}, {**KERAS, path: theano}).codes == []
    assert judge(home, {**KERAS, path: broken}).codes == []
    older: dict[str, Content] = {**KERAS, f"{SITE}/keras/src/backend/__init__.py": ""}
    assert judge(home, {**older, path: theano}).codes == []
    assert judge({**home, "KERAS_HOME": "/data/keras"}, {**KERAS, path: theano}).codes == []


def test_settings_of_keras_beside_another_framework() -> None:
    """A job of torch may never import Keras; with torch alone the file is a warning."""
    files = {path: content for path, content in KERAS.items() if "tensorflow" not in path}
    files.update(
        {f"{SITE}/torch/__init__.py": "", "/home/ann/.keras/keras.json": '{"backend": "tensorflow"}'}
    )
    (finding,) = judge({"HOME": "/home/ann"}, files).findings
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None and finding.fix.commands == ("export KERAS_BACKEND=torch",)


def test_settings_of_keras_that_may_not_be_read() -> None:
    files: dict[str, Content] = {**KERAS, "/home/ann/.keras/keras.json": unreadable()}
    assert judge({"HOME": "/home/ann"}, files).status is Status.UNKNOWN
