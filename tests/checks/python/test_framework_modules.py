"""framework-modules: what Python would find of the installed frameworks, and what they load by themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.python.zips import zipped

from npudoctor import Severity, Status
from npudoctor.checks.python.framework_modules import framework_modules as check
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

LIB = "/opt/lib"
IN_FRONT = {"search_path": (LIB, SITE), "variables": {"PYTHONPATH": LIB}}
TORCH_INFO = f"{SITE}/torch-2.13.0.dist-info"
BUILT = {f"{SITE}/torch/__init__.py": "x = 1\n", f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": "x"}


def record(name: str, version: str, *paths: str) -> dict[str, Content]:
    """A list of files, each of one byte."""
    text = "".join(f"{path},sha256=x,1\n" for path in paths)
    return {f"{SITE}/{name}-{version}.dist-info/RECORD": text}


def torch(*more: str) -> dict[str, Content]:
    listed = record("torch", "2.13.0", "torch/__init__.py", "torch/functional.py")
    return {
        **package_files("torch", "2.13.0", *more), **listed, **BUILT, f"{SITE}/torch/functional.py": "",
    }  # fmt: skip


def paddle() -> dict[str, Content]:
    return {
        **package_files("paddlepaddle", "3.3.1", "Requires-Dist: protobuf", "Requires-Dist: httpx"),
        **package_files("protobuf", "6.33.0"),
        **record("protobuf", "6.33.0", "google/protobuf/__init__.py", "google/_upb/_message.abi3.so"),
        f"{SITE}/google/protobuf/__init__.py": "__version__ = '6.33.0'\n",
        **package_files("httpx", "0.28.1"),
        **record("httpx", "0.28.1", "httpx/__init__.py", "httpx/_api.py", "httpx/_client.py"),
        f"{SITE}/httpx/__init__.py": "def get(): ...\ndef post(): ...\n",
    }


def told(*parts: Mapping[str, Content], **more: object) -> Asked:
    files: dict[str, Content] = {}
    for part in parts:
        files.update(part)
    return ask(check, fake_host(files, **more))  # type: ignore[arg-type]


def test_quiet_when_well() -> None:
    assert (told(torch()).status, told(torch()).codes) == (Status.OK, [])
    assert told(paddle()).codes == []


def test_skipped_without_a_framework() -> None:
    assert told(package_files("requests", "2.32.0")).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("front", "codes"),
    [
        ({f"{LIB}/google/__init__.py": ""}, ["framework-modules.hidden"]),
        ({f"{LIB}/google/__init__.py": "def mine(): ...\n"}, ["framework-modules.hidden"]),
        ({f"{LIB}/google.py": ""}, ["framework-modules.hidden"]),
        ({f"{LIB}/google/cloud/x.py": ""}, []),  # a namespace, too: both are looked into
        ({f"{LIB}/google/__init__.py": "__path__ = extend_path(__path__, __name__)"}, []),
        ({f"{LIB}/google/__init__.py": "__import__('pkg_resources').declare_namespace(__name__)"}, []),
        ({f"{LIB}/google/__init__.py": "", f"{LIB}/google/protobuf/__init__.py": "__version__ = 5\n"}, []),
        ({f"{SITE}/google/__init__.py": ""}, []),  # protobuf is in it
        (
            {f"{LIB}/google/__init__.py": "", f"{SITE}/protobuf-nspkg.pth": "import sys; f('google')\n"},
            [],
        ),
    ],
)  # fmt: skip
def test_what_hides_a_namespace(front: dict[str, Content], codes: list[str]) -> None:
    asked = told(paddle(), front, **IN_FRONT)
    assert asked.codes == codes
    for finding in asked.findings:
        assert finding.severity is Severity.ERROR, "no framework of these imports without protobuf"
        assert f"{LIB}/google" in finding.message and "google.protobuf of protobuf 6.33.0" in finding.message
        assert finding.fix is not None and finding.fix.commands[0].startswith(f"mv {LIB}/google")


@pytest.mark.parametrize(
    ("content", "found"),
    [("", True), ("x = 1\n", True), ("from httpx2 import *\n", False), ("def __getattr__(x): ...\n", False),
     ("def get(): ...\ndef post(): ...\n", False)],
)  # fmt: skip
def test_another_package_of_the_name(content: str, found: bool) -> None:
    """A warning: paddle was seen to import without httpx."""
    asked = told(paddle(), {f"{LIB}/httpx/__init__.py": content}, **IN_FRONT)
    assert [(one.code, one.severity) for one in asked.findings] == (
        [("framework-modules.hidden", Severity.WARNING)] if found else []
    )


def test_a_newer_checkout_hides_nothing() -> None:
    front: dict[str, Content] = {
        f"{LIB}/httpx/{name}": "x = 1\n" for name in ("__init__.py", "_api.py", "_client.py")
    }
    assert told(paddle(), front, **IN_FRONT).codes == []


def test_in_a_zip_file_that_a_pth_names() -> None:
    files = paddle()
    del files[f"{SITE}/httpx/__init__.py"]
    content = zipped("httpx/__init__.py", "httpx/_api.py", "httpx/_client.py")
    files.update({"/opt/httpx.zip": content, f"{SITE}/h.pth": "/opt/httpx.zip\n"})
    assert told(files, search_path=(SITE, "/opt/httpx.zip")).codes == []


def editable(place: str) -> dict[str, Content]:
    return {
        **package_files("torch", "2.13.0"),
        **record("torch", "2.13.0", "__editable__.torch-2.13.0.pth"),
        f"{SITE}/__editable__.torch-2.13.0.pth": f"{place}\n",
    }


def finder(place: str) -> dict[str, Content]:
    return {
        **editable(place),
        f"{SITE}/__editable___torch_2_13_0_finder.py":
            f"MAPPING: dict[str, str] = {{'torch': '{place}/torch'}}\n",
        f"{SITE}/__editable__.torch-2.13.0.pth":
            "import __editable___torch_2_13_0_finder; __editable___torch_2_13_0_finder.install()\n",
    }  # fmt: skip


@pytest.mark.parametrize("finds", [True, False])
def test_an_editable_install(finds: bool) -> None:
    files = finder(LIB) if finds else editable(LIB)
    path = (SITE,) if finds else (SITE, LIB)
    source: dict[str, Content] = {f"{LIB}/torch/__init__.py": "x = 1\n"}
    built: dict[str, Content] = {f"{LIB}/torch/_C.cpython-311-x86_64-linux-gnu.so": "x"}
    (gone,) = told(files, search_path=(SITE,)).findings
    assert (gone.code, gone.severity) == ("framework-modules.source-gone", Severity.ERROR)
    assert gone.fix is not None and "torch==2.13.0" in gone.fix.commands[0]
    (raw,) = told(files, source, search_path=path).findings
    assert (raw.code, raw.severity) == ("framework-modules.not-built", Severity.ERROR)
    assert f"{LIB}/torch is an unbuilt source tree" in raw.message
    assert told(files, source, built, search_path=path).codes == []


def test_a_source_tree_in_front_of_the_package() -> None:
    """The package is installed, and installing it once more would change nothing."""
    tree: dict[str, Content] = {f"{LIB}/torch/__init__.py": "x = 1\n"}
    (raw,) = told(torch(), tree, **IN_FRONT).findings
    assert raw.code == "framework-modules.not-built" and raw.fix is not None
    assert raw.fix.commands == ("unset PYTHONPATH",)
    assert raw.fix.undo == (f"export PYTHONPATH={LIB}",)
    variables = {"PYTHONPATH": f"/opt/other:{LIB}/"}
    (raw,) = told(torch(), tree, search_path=(LIB, SITE), variables=variables).findings
    assert raw.fix is not None and raw.fix.commands == ("export PYTHONPATH=/opt/other",)
    (raw,) = told(torch(), tree, search_path=(LIB, SITE)).findings
    assert raw.fix is not None and raw.fix.commands == () and f"{LIB}/torch aside" in raw.fix.title


def test_a_link_of_which_no_metadata_is_left_heeds_who_requires_it() -> None:
    link: dict[str, Content] = {f"{SITE}/torch.egg-link": f"{LIB}\n."}
    member = package_files("torchvision", "0.20.1", "Requires-Dist: torch (==2.5.1)")
    (gone,) = told(link, member).findings
    assert gone.code == "framework-modules.source-gone" and gone.fix is not None
    assert gone.fix.commands == ("/usr/bin/python3 -m pip install torchvision==0.20.1 torch==2.5.1",)


def test_a_development_link() -> None:
    link: dict[str, Content] = {f"{SITE}/torch.egg-link": f"{LIB}\n."}
    assert told(link).codes == ["framework-modules.source-gone"]
    assert told(link, BUILT).codes == []
    assert told(link, {f"{SITE}/hook.pth": "import sys; sys.path.append(sys.prefix)\n"}).codes == [], (
        "it may find torch"
    )
    assert told({f"{SITE}/other.egg-link": f"{LIB}\n."}).status is Status.SKIPPED


def backend(value: str, group: str = "torch.backends") -> dict[str, Content]:
    points = f"[console_scripts]\na = b:c\n\n[{group}]\nmine = {value}\n"
    return {
        **package_files("torch_mine", "1.0"),
        f"{SITE}/torch_mine-1.0.dist-info/entry_points.txt": points,
    }


MINE: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": "def _autoload(): ...\n"}


@pytest.mark.parametrize(
    ("value", "files", "missing"),
    [
        ("torch_mine:_autoload", {}, "torch_mine"),
        ("torch_mine:_autoload", {f"{SITE}/torch_mine/__pycache__/a.pyc": ""}, "torch_mine"),
        ("torch_mine.sub:_autoload", MINE, "torch_mine.sub"),
        ("torch_mine:other", MINE, "torch_mine:other"),
        ("torch_mine:_autoload", MINE, None),
        (
            "torch_mine:_autoload",
            {f"{SITE}/torch_mine/__init__.py": "from .x import *\n", f"{SITE}/torch_mine/x.py": ""},
            None,
        ),
        ("torch_mine:_autoload", {f"{SITE}/torch_mine.py": "_autoload = print\n"}, None),
        ("torch_mine:_autoload", {f"{SITE}/hook.pth": "import sys; sys.path.append(sys.prefix)\n"}, None),
    ],
)
def test_a_back_end_of_torch(value: str, files: dict[str, Content], missing: object) -> None:
    asked = told(torch(), backend(value), files)
    assert asked.codes == (["framework-modules.backend-gone"] if missing else [])
    for finding in asked.findings:
        assert finding.severity is Severity.ERROR and f" {missing} as a back end" in finding.message
        assert finding.fix is not None
        assert finding.fix.commands == ("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",)


@pytest.mark.parametrize(
    ("text", "files", "missing"),
    [
        ("from . import _C\n", {}, "torch_mine._C"),
        ("from . import _C\n", {f"{SITE}/torch_mine/_C.so": "x"}, None),
        ("from .lib import _C\n", {}, "torch_mine.lib"),
        ("try:\n    from . import _C\nexcept ImportError: pass\n", {}, None),
        ("import mine_runtime\n", {}, "mine_runtime"),
        ("import mine_runtime\n", {f"{SITE}/mine_runtime.py": ""}, None),
        ("import mine_runtime\n", {f"{SITE}/hook.pth": "import sys; sys.path.append(sys.prefix)\n"}, None),
        ("import os, sys, math\nfrom collections import abc\n", {}, None),
    ],
)
def test_what_a_back_end_imports(text: str, files: dict[str, Content], missing: Optional[str]) -> None:
    if not hasattr(sys, "stdlib_module_names") and "runtime" in text:
        pytest.skip("this Python does not know the modules of its own library")
    module: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": f"{text}def _autoload(): ...\n"}
    asked = told(torch(), backend("torch_mine:_autoload"), module, files)
    assert asked.codes == (["framework-modules.backend-gone"] if missing else [])
    for finding in asked.findings:
        assert f"imports {missing}," in finding.message


def test_an_old_egg_that_goes_first() -> None:
    """easy_install's .pth file puts it before what pip installed."""
    egg = f"{SITE}/old.egg"
    front: dict[str, Content] = {f"{egg}/httpx/__init__.py": "def get(): ...\ndef post(): ...\n"}
    front[f"{egg}/httpx/_api.py"] = front[f"{egg}/httpx/_client.py"] = ""
    (finding,) = told(paddle(), front, search_path=(egg, SITE)).findings
    assert (finding.code, finding.severity) == ("framework-modules.hidden", Severity.WARNING)
    assert told(paddle(), front, search_path=(SITE, egg)).codes == [], "behind, it hides nothing"
    named = package_files("httpx", "0.1", site=egg)
    assert told(paddle(), front, named, search_path=(egg, SITE)).codes == [], "its version is known"


def test_an_egg_that_is_a_zip_file_holds_no_library() -> None:
    egg = f"{SITE}/torch-1.0-py3.11.egg"
    for names, codes in ((("torch/__init__.py",), ["framework-modules.hidden"]),
                         (("torch/__init__.py", "torch/_C.py"), [])):  # fmt: skip
        assert told(torch(), {egg: zipped(*names)}, search_path=(egg, SITE)).codes == codes


def test_back_ends_that_are_not_loaded() -> None:
    gone = backend("torch_mine:_autoload")
    assert told(torch(), gone, variables={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).codes == []
    assert told(torch(), backend("torch_mine:x", "vllm.platform_plugins")).codes == []
    assert told(package_files("torch", "2.4.1"), gone).codes == []


@pytest.mark.parametrize(
    ("framework", "folder"),
    [("tensorflow-cpu", "tensorflow-plugins"), ("paddlepaddle", "paddle_custom_device")],
)
def test_a_plug_in_that_is_no_library(framework: str, folder: str) -> None:
    files = package_files(framework, "3.0")
    path = f"{SITE}/{folder}/libx.so"
    (finding,) = told(files, {path: "version https://git-lfs.github.com/spec/v1\n"}).findings
    assert (finding.code, finding.severity) == ("framework-modules.plugin-unusable", Severity.ERROR)
    assert path in finding.message
    assert told(files, {path: b"\x7fELF" + bytes(60)}).codes == []
    assert told(files, {f"{SITE}/{folder}/readme.txt": "x"}).codes == []
    assert told(torch(), {path: "junk"}).codes == [], "nobody loads it"


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("sitecustomize.py", "import sys\nsys.exit(3)\n", Severity.ERROR),
        ("usercustomize.py", '"""Ours."""\nraise SystemExit\n', Severity.ERROR),
        ("sitecustomize.py", "import os\nprepare()\nos._exit(0)\n", Severity.WARNING),
        ("sitecustomize.py", "raise RuntimeError('no')\n", Severity.WARNING),
        ("sitecustomize.py", "import sys\nsys.modules['torch'] = None\n", Severity.WARNING),
        ("a.pth", "import os; os._exit(0)\n", Severity.ERROR),
    ],
)
def test_code_that_ends_python_at_its_start(name: str, text: str, severity: Severity) -> None:
    (finding,) = told(torch(), {f"{SITE}/{name}": text}).findings
    assert (finding.code, finding.severity) == ("framework-modules.start-up-code", severity)
    assert f"{SITE}/{name}:" in finding.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sitecustomize.py", "import sys\nif sys.version_info < (3, 8):\n    sys.exit(1)\n"),
        ("sitecustomize.py", "def leave():\n    raise SystemExit\n"),
        ("sitecustomize.py", "try:\n    import mine\nexcept ImportError:\n    raise\n"),
        ("sitecustomize.py", "exit = print\nexit(1)\n"),
        ("sitecustomize.py", "import sys\nsys.modules['mine'] = None\n"),
        ("sitecustomize.py", "raise is no Python"),
        ("a.pth", "# import os; os._exit(0)\n/opt/more\n"),
        (".hidden.pth", "import os; os._exit(0)\n"),
        ("distutils-precedence.pth", "import os; var = 'A'; enabled = os.environ.get(var) == 'local'\n"),
    ],
)
def test_code_that_lets_python_start(name: str, text: str) -> None:
    assert told(torch(), {f"{SITE}/{name}": text}).codes == []


def test_the_users_own_code_where_it_is_not_asked_for() -> None:
    files = {f"{SITE}/usercustomize.py": "raise SystemExit\n"}
    assert told(torch(), files, variables={"PYTHONNOUSERSITE": "1"}).codes == []


def test_code_at_the_start_that_cannot_be_read() -> None:
    assert told(torch(), {f"{SITE}/sitecustomize.py": unreadable()}).codes == []


def test_code_at_the_start_that_may_do_anything() -> None:
    """As root it was not run when the interpreter was asked; an ordinary user's was."""
    files = {f"{SITE}/sitecustomize.py": "import mine\n"}
    asked = told(torch(), files)
    assert (asked.status, asked.codes, asked.advisory) == (Status.UNKNOWN, [], True)
    assert told(torch(), files, euid=1000).status is Status.OK
    named = told(torch(), {f"{LIB}/sitecustomize.py": "import mine\n"}, euid=1000, **IN_FRONT)
    assert named.status is Status.UNKNOWN


INFO = f"{SITE}/torch-2.13.0.dist-info"
NAMED = package_files("torch", "2.13.0")
SCENE_BUILT: dict[str, Content] = {
    f"{SITE}/torch/__init__.py": "x = 1\n",
    f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": "x",
}
TORCH: dict[str, Content] = {**NAMED, **SCENE_BUILT}
EDITABLE: dict[str, Content] = {**NAMED, f"{SITE}/__editable__.torch-2.13.0.pth": f"{LIB}\n"}
SOURCE: dict[str, Content] = {f"{LIB}/torch/__init__.py": "x = 1\n"}
PADDLE: dict[str, Content] = {
    **package_files("paddlepaddle", "3.3.1", "Requires-Dist: protobuf"),
    **package_files("protobuf", "6.33.0"),
    f"{SITE}/protobuf-6.33.0.dist-info/RECORD": "google/protobuf/__init__.py,sha256=x,1\n",
    f"{SITE}/google/protobuf/__init__.py": "__version__ = '6.33.0'\n",
}
BACKEND: dict[str, Content] = {
    **package_files("torch_mine", "1.0"),
    f"{SITE}/torch_mine-1.0.dist-info/entry_points.txt": "[torch.backends]\nmine = torch_mine:_autoload\n",
}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    link: dict[str, Content] = {f"{SITE}/torch.egg-link": f"{LIB}\n."}
    mine: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": "def other(): ...\n"}
    for files in ({}, TORCH, {**NAMED, **link}, EDITABLE, {**TORCH, **BACKEND}, {**TORCH, **BACKEND, **mine}):
        yield ask(check, fake_host(files))
    for code in (
        "raise SystemExit",
        "raise OSError",
        "import sys\nsys.modules['torch'] = None",
        "import mine",
    ):
        yield ask(check, fake_host({**TORCH, f"{SITE}/sitecustomize.py": code}))
    yield ask(check, fake_host({**EDITABLE, **SOURCE}, search_path=(SITE, LIB)))
    hiding: dict[str, Content] = {**PADDLE, f"{LIB}/google/__init__.py": ""}
    for more in ({}, {f"{LIB}/google/__init__.py": "def mine(): ...\n"}):
        yield ask(
            check,
            fake_host({**hiding, **more}, search_path=(LIB, SITE), variables={"PYTHONPATH": LIB}),
        )
    plug_in: dict[str, Content] = {f"{SITE}/tensorflow-plugins/libx.so": "version https://git-lfs\n"}
    yield ask(check, fake_host({**package_files("tensorflow-cpu", "3.0"), **plug_in}))
    part: dict[str, Content] = {f"{SITE}/torch_mine/__init__.py": "from . import _C\ndef _autoload(): ...\n"}
    yield ask(check, fake_host({**TORCH, **BACKEND, **part}))


@pytest.mark.parametrize(
    ("content", "variables", "found"),
    [
        (b"# f\xfcr uns\n", {}, True),
        ("/opt/pkgs\n".encode("utf-16"), {"LANG": "zh_CN.UTF-8"}, True),
        ("# \u8f6f\u4ef6\u5305\n".encode("gbk"), {"LANG": "zh_CN.UTF-8"}, True),
        ("# \u8f6f\u4ef6\u5305\n".encode("gbk"), {"LANG": "zh_CN.GBK"}, False),
        ("# \u8f6f\u4ef6\u5305\n".encode(), {"LANG": "zh_CN.UTF-8"}, False),
        ("# \u8f6f\u4ef6\u5305\n".encode(), {"LC_ALL": "C"}, True),
        (b"# \xff\n", {"LANG": "xx_YY.nonsense"}, False),
    ],
)
def test_a_pth_file_that_python_cannot_decode(content: bytes, variables: dict[str, str], found: bool) -> None:
    files: dict[str, Content] = {**TORCH, f"{SITE}/x.pth": content}
    (*findings,) = ask(check, fake_host(files, variables=variables, euid=0)).findings
    assert [finding.code for finding in findings] == ["framework-modules.start-up-code"] * found
    for finding in findings:
        assert finding.fix is not None
        assert finding.fix.commands == (f"mv {SITE}/x.pth {SITE}/x.pth.not-utf8",)
    # A user's has answered, with this file.
    assert not ask(check, fake_host(files, variables=variables, euid=1000)).findings
