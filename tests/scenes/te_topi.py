"""Machines on which te-topi says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.cann.te_topi import te_topi
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, unreadable

from .cann_trees import LATEST, TOOLKIT, healthy, old, old_variables, sourced

FRAMEWORK = {"torch-npu": "2.5.1"}
WHEELS: dict[str, Content] = {
    f"{TOOLKIT}/8.1.RC1/compiler/lib64/te-0.4.0-py3-none-any.whl": "",
    f"{TOOLKIT}/8.1.RC1/compiler/lib64/topi-0.4.0-py3-none-any.whl": "",
    f"{TOOLKIT}/8.1.RC1/hccl/lib64/hccl-0.1.0-py3-none-any.whl": "",
}


def te(version: str, site: str = SITE) -> dict[str, Content]:
    """A te in a folder of the search path."""
    return {f"{site}/te/__init__.py": "", f"{site}/te/version.py": f'version = "{version}"\n'}


def told(files: Mapping[str, Content], variables: Mapping[str, str], **more: Any) -> Asked:
    """The answer where a framework that runs on CANN is installed."""
    settings = {"packages": FRAMEWORK, "expect": "npu", **more}
    return ask(te_topi, fake_host(files, variables=variables, **settings))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, {})
    yield told(healthy(), {}, packages={})
    yield told({f"{LATEST}/opp/built-in/x": ""}, {"ASCEND_HOME_PATH": LATEST})
    yield told(healthy(), {})
    yield told(
        {**old(), **te("1.76.22.3.220")}, {name: old_variables()[name] for name in ("ASCEND_OPP_PATH",)}
    )
    yield told({**healthy(), **WHEELS, **te("7.5.0.1.129")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.5.0.1.129")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.7.0.1.212")}, sourced(PYTHONPATH=""))
    yield told({**healthy(), **te("7.5.0.1.129")}, sourced())
    yield told({**healthy(), f"{SITE}/te": unreadable()}, sourced(PYTHONPATH=""))
