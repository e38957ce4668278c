"""Machines on which cann-env says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from npudoctor.checks.cann.cann_env import cann_env
from npudoctor.testing import Asked, Content, ask, fake_host

from .cann_trees import ASCEND, LATEST, TBE, TOOLKIT, healthy, old, release, sourced

ATB: dict[str, Content] = {f"{ASCEND}/nnal/atb/set_env.sh": ""}
OTHER = release("8.0.0", "7.6.0.1.220", root="/data/ascend-toolkit")


def told(files: Mapping[str, Content], variables: Mapping[str, str], **packages: str) -> Asked:
    """The answer on a machine with NPUs; an underscore in a name is a hyphen."""
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return ask(cann_env, fake_host(files, variables=variables, packages=named, expect="npu"))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, {})
    yield told({**healthy(), **ATB}, {}, torch_npu="2.5.1")
    yield told(old(), {})
    yield told(healthy(), sourced(ASCEND_OPP_PATH="", TOOLCHAIN_HOME=""))
    yield told(healthy(), sourced(ASCEND_HOME_PATH="/data/gone"))
    yield told(healthy(), sourced(ASCEND_HOME_PATH=TOOLKIT))
    other = sourced(ASCEND_OPP_PATH="/data/ascend-toolkit/8.0.0/opp")
    yield told({**healthy(), **OTHER}, other)
    foreign = f"/data/ascend-toolkit/8.0.0/python/site-packages:{LATEST}/python/site-packages:{LATEST}/{TBE}"
    yield told({**healthy(), **OTHER}, sourced(PYTHONPATH=foreign))
    yield told(healthy(), sourced(PYTHONPATH="", PATH="/usr/bin"))
    yield told({**healthy(), **ATB}, sourced(), vllm_ascend="0.9.1")
    yield told(
        {path: text for path, text in healthy().items() if "set_env" not in path}, {}, torch_npu="2.5.1"
    )
