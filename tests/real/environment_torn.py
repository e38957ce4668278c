"""Cases of what kills, full disks, slim images, other owners and another Python leave of an environment."""

from __future__ import annotations

from .environment_accidents import (
    ByOrdinaryUser,
    Compiled,
    Elsewhere,
    Find,
    FullDisk,
    Killed,
    Link,
    Linked,
    Mode,
    OwnPython,
    SecondVersion,
    Stale,
    Strip,
    Torn,
)
from .environment_bases import MINDSPORE, PADDLE, PADDLE_39, TRAINERS
from .environment_case import Group
from .environment_steps import (
    Cut,
    CutCode,
    Download,
    Install,
    Into,
    Remove,
    Uninstall,
    Variable,
    Write,
    Zeros,
)

_killed = Group("killed")
_UNINSTALL, _TORCH = "uninstall -y paddlepaddle", "uninstall -y torch"
_NUMPY = "install --no-deps --force-reinstall numpy=="
_MINE = Write("paddle/mine.py", "x = 1\n")

KILLED = (
    _killed.broken("paddle-uninstall-killed", PADDLE, (Killed(_UNINSTALL, "moved", 4),), "paddle"),
    # A file of the user's own keeps pip from moving the folder as a whole.
    _killed.broken(
        "paddle-uninstall-killed-within", PADDLE, (_MINE, Killed(_UNINSTALL, "moved", 40)), "paddle"
    ),
    _killed.broken(
        "paddle-39-uninstall-killed-late", PADDLE_39, (Killed(_UNINSTALL, "deleted", 50),), "paddle"
    ),
    _killed.broken("numpy-upgrade-killed", PADDLE, (Killed(f"{_NUMPY}2.4.6", "written", 90),), "numpy"),
    _killed.broken(
        "numpy-upgrade-killed-early", PADDLE_39, (Killed(f"{_NUMPY}2.0.1", "written", 0),), "numpy"
    ),
    _killed.broken(
        "numpy-upgrade-killed-before", MINDSPORE, (Killed(f"{_NUMPY}1.26.3", "moved", 3),), "numpy"
    ),
    _killed.works("numpy-upgrade-killed-at-the-end", PADDLE, (Killed(f"{_NUMPY}2.4.6", "deleted", 30),)),
    _killed.broken("torch-uninstall-killed", TRAINERS, (Killed(_TORCH, "moved", 5),), "torch"),
    # Its metadata is moved first.
    _killed.broken("torch-uninstall-killed-early", TRAINERS, (Killed(_TORCH, "moved", 4),), "torch"),
    _killed.broken(
        "torch-uninstall-killed-within",
        TRAINERS,
        (Write("torch/mine.py", "x = 1\n"), Killed(_TORCH, "moved", 60)),
        "torch",
    ),
    _killed.broken(
        "transformers-upgrade-killed",
        TRAINERS,
        (Killed("install --no-deps --force-reinstall transformers==5.24.0", "written", 900),),
        "transformers",
    ),
    _killed.broken(
        "tokenizers-reinstall-killed",
        TRAINERS,
        (Killed("install --no-deps --force-reinstall tokenizers==0.23.3", "written", 3),),
        "tokenizers",
    ),
)

_torn = Group("torn")
TORN = (
    _torn.broken("paddle-torn", PADDLE, (Torn("paddle", 0.5),), "paddle"),
    _torn.broken(
        "paddle-torn-without-metadata", PADDLE_39, (Torn("paddle", 0.9), Remove("paddlepaddle-*")), "paddle"
    ),
    _torn.broken("numpy-torn", PADDLE, (Torn("numpy", 0.7),), "numpy"),
    _torn.broken("transformers-torn", TRAINERS, (Torn("transformers", 0.97),), "transformers"),
    _torn.broken("mindspore-torn", MINDSPORE, (Torn("mindspore", 0.6),), "mindspore"),
    _torn.broken("paddle-full-disk", PADDLE_39, (FullDisk("paddle", 0.99),), "paddle"),
    _torn.broken("numpy-full-disk", MINDSPORE, (FullDisk("numpy", 0.6),), "numpy"),
    _torn.broken("httpx-full-disk", PADDLE, (FullDisk("httpx", 0.5),), "httpx"),
    _torn.broken("datasets-full-disk", TRAINERS, (FullDisk("datasets", 0.6),), "datasets"),
    _torn.broken("sft-trainer-cut", TRAINERS, (Cut("trl/trainer/sft_trainer.py", 0.3),), "trl"),
    _torn.broken(
        "lightning-trainer-empty", TRAINERS, (Cut("lightning/pytorch/trainer/trainer.py", 0),), "lightning"
    ),
    _torn.broken("paddle-conv-empty", PADDLE, (Cut("paddle/nn/layer/conv.py", 0),), "paddle", quick=True),
    _torn.works("networkx-cut", PADDLE, (Cut("networkx/algorithms/clique.py", 0.5),)),
)

_slim = Group("slim")
_TEXTS = "-regex '.*[.]\\(md\\|rst\\|h\\|{}\\)' -delete"
SLIM = (
    _slim.broken(
        "trainers-without-tests", TRAINERS, (Find("-name 'test*' -exec rm -rf {} +"),), "testing torch"
    ),
    _slim.broken("trainers-without-test-files", TRAINERS, (Find("-name 'test*' -delete"),), "testing torch"),
    _slim.works("paddle-without-tests", PADDLE, (Find("-name 'test*' -exec rm -rf {} +"),)),
    _slim.works("mindspore-without-tests", MINDSPORE, (Find("-type d -name tests -exec rm -rf {} +"),)),
    _slim.broken("paddle-without-sources", PADDLE_39, (Find("-path './paddle/*.py' -delete"),), "paddle"),
    _slim.works("paddle-without-records", PADDLE, (Find("-path '*.dist-info/RECORD' -delete"),), quick=True),
    _slim.works("trainers-without-records", TRAINERS, (Find("-path '*.dist-info/RECORD' -delete"),)),
    # setuptools reads a text of its own when it is imported.
    _slim.broken("paddle-without-texts", PADDLE, (Find(_TEXTS.format("txt")),), "setuptools lorem"),
    _slim.works("paddle-without-headers", PADDLE, (Find(_TEXTS.format("pyi")),)),
    _slim.works("paddle-stripped", PADDLE_39, (Strip("numpy/_core/*.so"),)),
    _slim.works("numpy-libraries-stripped", PADDLE, (Strip("numpy.libs/*", "--strip-all"),)),
    _slim.works("httpx-byte-code-alone", PADDLE, (Compiled("httpx"),)),
    _slim.works("numpy-byte-code-alone", PADDLE_39, (Compiled("numpy"),)),
)

_code = Group("byte code")
CODE = (
    _code.broken("paddle-deep-code-cut", PADDLE, (CutCode("paddle/nn/layer/conv.py", 0.5),), "conv"),
    _code.broken(
        "llama-code-cut", TRAINERS, (CutCode("transformers/models/llama/modeling_llama.py", 0.7),), "llama"
    ),
    # Without the mark of its head it is compiled again.
    _code.works("numpy-linalg-code-zeros", PADDLE, (Zeros("numpy/linalg/__pycache__/_linalg.*.pyc"),)),
    _code.broken(
        "idna-code-of-another", PADDLE, (Stale("idna/core.py", "raise ValueError('old')\n"),), "idna"
    ),
    _code.works("networkx-code-cut", PADDLE, (CutCode("networkx/algorithms/clique.py", 0.5),)),
    _code.works("paddle-code-empty", PADDLE_39, (CutCode("paddle/nn/layer/conv.py", 0),), quick=True),
)

_pth = Group("pth")
_ACCENT = "/srv/mod\u00e8les\n"
_INSERT = "import sys; sys.path.insert(0, '{job}/lib')\n"
PTH = (
    _pth.broken("pth-in-utf-16", PADDLE, (Write("mine.pth", _ACCENT, encoding="utf-16"),), "mine.pth"),
    _pth.broken("pth-in-utf-16-old", PADDLE_39, (Write("mine.pth", _ACCENT, encoding="utf-16"),), "mine.pth"),
    _pth.broken("pth-in-latin", PADDLE_39, (Write("mine.pth", _ACCENT, encoding="latin-1"),), "mine.pth"),
    _pth.broken(
        "pth-in-latin-trainers", TRAINERS, (Write("mine.pth", _ACCENT, encoding="latin-1"),), "mine.pth"
    ),
    _pth.broken(
        "pth-inserts-numpy", PADDLE, (Write("job/lib/numpy/__init__.py"), Write("mine.pth", _INSERT)), "numpy"
    ),
    _pth.broken("pth-ends-python", PADDLE, (Write("mine.pth", "import os; os._exit(1)\n"),), "mine.pth"),
    _pth.works("pth-inserts-nothing", PADDLE, (Write("job/lib/mine.py"), Write("mine.pth", _INSERT))),
    _pth.works("pth-import-gone", PADDLE_39, (Write("mine.pth", "import gone_tool; gone_tool.start()\n"),)),
    _pth.works("pth-with-mark", PADDLE, (Write("mine.pth", "/srv/models\n", encoding="utf-8-sig"),)),
    _pth.works(
        "pth-of-windows", PADDLE_39, (Write("mine.pth", "# ours\r\n\r\n/srv/models\r\n"),), quick=True
    ),
    _pth.works("coloredlogs", TRAINERS, (Install("coloredlogs==15.0.1"), Install("humanfriendly==10.0"))),
    _pth.works("coloredlogs-paddle", PADDLE, (Install("coloredlogs==15.0.1"),)),
    _pth.works("future-fstrings", PADDLE_39, (Install("future-fstrings==1.2.0"),)),
    _pth.works("future-fstrings-trainers", TRAINERS, (Install("future-fstrings==1.2.0"),)),
)

_python = Group("python")
_DYNLOAD = "lib-dynload"
PYTHON = (
    _python.broken("python-without-ctypes", PADDLE, (OwnPython(f"{_DYNLOAD}/_ctypes.*"),), "ctypes"),
    _python.works("python-without-ssl", PADDLE, (OwnPython(f"{_DYNLOAD}/_ssl.*"),)),
    _python.broken("python-without-struct", PADDLE_39, (OwnPython(f"{_DYNLOAD}/_struct.*"),), "struct"),
    _python.broken("python-without-bz2", TRAINERS, (OwnPython(f"{_DYNLOAD}/_bz2.*"),), "bz2"),
    _python.broken("python-without-lzma", TRAINERS, (OwnPython(f"{_DYNLOAD}/_lzma.*"),), "lzma"),
    _python.broken("python-without-unittest", TRAINERS, (OwnPython("unittest"),), "unittest"),
    _python.works("python-without-tkinter", PADDLE, (OwnPython(f"{_DYNLOAD}/_tkinter.*"),)),
    _python.works("python-without-sqlite", PADDLE_39, (OwnPython(f"{_DYNLOAD}/_sqlite3.*"),)),
    _python.works("python-without-tests", PADDLE, (OwnPython("test"),)),
    _python.broken("hash-seed-of-words", PADDLE, (Variable("PYTHONHASHSEED", "fixed"),), "PYTHONHASHSEED"),
    _python.broken("encoding-unknown", PADDLE, (Variable("PYTHONIOENCODING", "utf-7b"),), "PYTHONIOENCODING"),
    _python.works(
        "hash-seed", PADDLE, (Variable("PYTHONHASHSEED", "42"), Variable("PYTHONIOENCODING", "utf8"))
    ),
)

_rights = Group("rights")
_USER = ByOrdinaryUser()
RIGHTS = (
    _rights.works("user-mindspore", MINDSPORE, (_USER,)),
    _rights.works("user-trainers", TRAINERS, (_USER,)),
    _rights.broken("user-numpy-init-private", MINDSPORE, (_USER, Mode("numpy/__init__.py", 0o600)), "numpy"),
    _rights.broken("user-scipy-private", MINDSPORE, (_USER, Mode("scipy", 0o600, below=True)), "scipy"),
    _rights.broken("user-library-private", MINDSPORE, (_USER, Mode("mindspore/lib/*e_core.so*", 0o600)),
                   "libmindspore_core"),
    _rights.broken("user-trainer-private", TRAINERS, (_USER, Mode("transformers/trainer.py", 0o600)),
                   "trainer.py"),
    _rights.broken("user-datasets-private", TRAINERS, (_USER, Mode("datasets", 0o700)), "datasets"),
    _rights.broken("user-metadata-private", TRAINERS, (_USER, Mode("dill-*.dist-info", 0o700)), "dill",
                   warned=True),
    _rights.works("user-tests-private", MINDSPORE, (_USER, Mode("numpy/tests", 0o700))),
    _rights.works("user-code-private", MINDSPORE, (_USER, Mode("numpy/__pycache__/*.pyc", 0o600))),
    _rights.works("user-wheel-private", MINDSPORE, (_USER, Mode("wheel", 0o600, below=True))),
)  # fmt: skip

_places = Group("places")
_AARCH64 = ("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64",
            "--platform", "manylinux2014_aarch64", "--python-version")  # fmt: skip
_FRAMEWORK = "paddle paddlepaddle-*"
PLACES = (
    _places.works("paddle-whole-in-pythonpath", PADDLE, (Elsewhere(f"{_FRAMEWORK} _foo.*"),)),
    # Without a module beside its folder that nothing imports.
    _places.works("paddle-in-pythonpath", PADDLE, (Elsewhere(_FRAMEWORK),)),
    _places.works("trainers-in-pythonpath", TRAINERS, (Elsewhere("transformers transformers-*"),)),
    _places.broken("paddle-in-pythonpath-torn", PADDLE_39,
                   (Torn("paddle", 0.9), Elsewhere(_FRAMEWORK)), "paddle"),
    _places.broken("transformers-in-front-torn", TRAINERS,
                   (Elsewhere("transformers transformers-*", also=True),
                    Write("job/lib/transformers/trainer.py")),
                   "transformers"),
    _places.works("numpy-in-both", PADDLE, (Elsewhere("numpy numpy.libs numpy-*", also=True),)),
    _places.works("numpy-metadata-twice", PADDLE, (SecondVersion("numpy", "2.2.6"),)),
    _places.works("paddle-metadata-twice", PADDLE_39, (SecondVersion("paddlepaddle", "2.6.2"),)),
    _places.works("xxhash-metadata-twice", TRAINERS, (SecondVersion("xxhash", "3.5.0"),)),
    _places.broken("numpy-of-aarch64", PADDLE,
                   (Download("numpy==2.4.6", (*_AARCH64, "3.12")), Into("numpy")), "numpy"),
    _places.broken("safetensors-of-aarch64", PADDLE,
                   (Download("safetensors==0.7.0", (*_AARCH64, "3.12")), Into("safetensors")), "safetensors"),
    _places.broken("tokenizers-of-aarch64", TRAINERS,
                   (Download("tokenizers==0.23.3", (*_AARCH64, "3.11")), Into("tokenizers")), "tokenizers"),
)  # fmt: skip

_pip = Group("pip")
_NO_CORE = Remove("numpy/_core/_multiarray_umath*.so")
PIP = (
    _pip.works("pip-gone", PADDLE, (Uninstall("pip"),)),
    _pip.broken("pip-gone-numpy-broken", PADDLE, (Uninstall("pip"), _NO_CORE), "numpy"),
    _pip.broken("pip-broken-numpy-broken", PADDLE, (Remove("pip/_internal/cli"), _NO_CORE), "numpy"),
    _pip.broken("pip-broken-idna-gone", PADDLE, (Uninstall("idna"), Remove("pip/_vendor/packaging")), "idna"),
    _pip.works("pip-broken", PADDLE_39, (Remove("pip/_internal/cli"),)),
    _pip.works("links-of-uv", PADDLE, (Linked(),)),
    _pip.broken("links-of-uv-pruned", PADDLE, (Linked("numpy"),), "numpy"),
    _pip.broken("links-of-uv-pruned-paddle", PADDLE_39, (Linked("paddle"),), "paddle"),
    _pip.broken("httpx-link-gone", PADDLE, (Link("httpx", "/opt/gone"),), "httpx"),
    _pip.broken("numpy-link-gone", PADDLE_39, (Link("numpy", "/opt/gone"),), "numpy"),
    _pip.broken("datasets-link-gone", TRAINERS, (Link("datasets", "/opt/gone"),), "datasets"),
)

CASES = (*KILLED, *TORN, *SLIM, *CODE, *PTH, *PYTHON, *RIGHTS, *PLACES, *PIP)
