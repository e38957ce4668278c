"""Installations of CANN, era by era, with info files as installers write them."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Optional

import pytest

from npudoctor.facts.cann.installations import (
    Install,
    find_installs,
    install_at,
    named_root,
    operators,
    set_env_script,
)
from npudoctor.host import CannotTell
from npudoctor.host.devices.cann_info import parse_settings
from npudoctor.host.fs.files import Files
from npudoctor.testing import Content, MemoryDisk, folder, link, unreadable

ASCEND = "/usr/local/Ascend"


def on(files: Mapping[str, Content]) -> Files:
    return Files(MemoryDisk(files))


ERA_5_0: dict[str, Content] = {
    f"{ASCEND}/nnae/latest/fwkacllib/version.info": "Version=1.77.100.1.220\n",
    f"{ASCEND}/nnae/latest/opp/op_impl/built-in": folder(),
}
ERA_6_0: dict[str, Content] = {
    f"{ASCEND}/ascend-toolkit/6.0.1/compiler/lib64": folder(),
    f"{ASCEND}/ascend-toolkit/6.0.1/opp/built-in": folder(),
    f"{ASCEND}/ascend-toolkit/latest/compiler": link("../6.0.1/compiler"),
    f"{ASCEND}/ascend-toolkit/latest/opp": link("../6.0.1/opp"),
    f"{ASCEND}/ascend-toolkit/latest/version.cfg": (
        "runtime_running_version=[1.84.15.1.320:6.0.1]\ncompiler_running_version=[1.84.15.1.320:6.0.1]\n"
        "runtime_upgrade_version=[1.84.15.1.320:6.0.1]\n"
    ),
}
ERA_8_2: dict[str, Content] = {
    f"{ASCEND}/ascend-toolkit/8.2.RC1/compiler/version.info": (
        'Version=8.2.0.0.203\nversion_dir=8.2.RC1\ntimestamp=20250801_101010101\nrequired_package_opp_version="8.2"\n'
    ),
    f"{ASCEND}/ascend-toolkit/8.2.RC1/opp/built-in": folder(),
    f"{ASCEND}/ascend-toolkit/8.2.RC1/aarch64-linux/ascend_toolkit_install.info": (
        "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\ninnerversion=V100R001C22SPC001B203\n"
        "compatible_version=[V100R001C15],[V100R001C18]\narch=aarch64\nos=linux\n"
        f"path={ASCEND}/ascend-toolkit/8.2.RC1/aarch64-linux\n"
    ),
    f"{ASCEND}/ascend-toolkit/8.2.RC1/arm64-linux": link("aarch64-linux"),
    f"{ASCEND}/ascend-toolkit/latest/compiler": link("../8.2.RC1/compiler"),
    f"{ASCEND}/ascend-toolkit/latest/opp": link("../8.2.RC1/opp"),
    f"{ASCEND}/ascend-toolkit/latest/aarch64-linux": folder(),
    f"{ASCEND}/ascend-toolkit/set_env.sh": "",
}
NNAE: dict[str, Content] = {
    f"{ASCEND}/nnae/8.0.RC3/ascend_nnae_install.info": (
        "package_name=Ascend-cann-nnae\nversion=8.0.RC3\ninnerversion=V100R001C19SPC001B140\narch=x86_64\n"
        f"os=linux\npath={ASCEND}/nnae/8.0.RC3\n"
    ),
    f"{ASCEND}/nnae/8.0.RC3/compiler/version.info": "Version=7.5.0.1.140\nversion_dir=8.0.RC3\n",
    f"{ASCEND}/nnae/latest/compiler": link("../8.0.RC3/compiler"),
}
ERA_9: dict[str, Content] = {
    f"{ASCEND}/cann-9.1.0/opp/built-in": folder(),
    f"{ASCEND}/cann-9.1.0/share/info/opp/version.info": "Version=9.1.0\n",
    f"{ASCEND}/cann-9.1.0/aarch64-linux/ascend_toolkit_install.info": (
        f"package_name=Ascend-cann-toolkit\nversion=9.1.0\narch=aarch64\npath={ASCEND}/cann-9.1.0\n"
    ),
    f"{ASCEND}/cann-9.1.0/set_env.sh": "",
    f"{ASCEND}/cann": link("cann-9.1.0"),
    f"{ASCEND}/ascend-toolkit/latest": link(f"{ASCEND}/cann"),
}


@pytest.mark.parametrize(
    ("files", "install"),
    [
        (
            ERA_5_0,
            Install(f"{ASCEND}/nnae/latest", f"{ASCEND}/nnae/latest", None, "1.77.100.1.220", None, "nnae"),
        ),
        (
            ERA_6_0,
            Install(
                f"{ASCEND}/ascend-toolkit/latest",
                f"{ASCEND}/ascend-toolkit/6.0.1",
                "6.0.1",
                "1.84.15.1.320",
                None,
                "toolkit",
            ),
        ),
        (
            ERA_8_2,
            Install(
                f"{ASCEND}/ascend-toolkit/latest",
                f"{ASCEND}/ascend-toolkit/8.2.RC1",
                "8.2.RC1",
                "8.2.0.0.203",
                "aarch64",
                "toolkit",
            ),
        ),
        (
            NNAE,
            Install(
                f"{ASCEND}/nnae/latest", f"{ASCEND}/nnae/8.0.RC3", "8.0.RC3", "7.5.0.1.140", "x86_64", "nnae"
            ),
        ),
        (
            ERA_9,
            Install(f"{ASCEND}/cann", f"{ASCEND}/cann-9.1.0", "9.1.0", "9.1.0", "aarch64", "toolkit"),
        ),
    ],
)
def test_each_era_is_found_once(files: Mapping[str, Content], install: Install) -> None:
    assert find_installs(on(files), {}, "/root") == [install]


def test_the_oldest_layout_is_flat() -> None:
    (install,) = find_installs(on({f"{ASCEND}/fwkacllib/lib64": folder()}), {}, "/root")
    assert (install.path, install.kind, install.before_6) == (ASCEND, "flat", True)


def test_the_order_of_the_places() -> None:
    def tree(path: str) -> dict[str, Content]:
        return {f"{path}/opp/built-in": folder()}

    places = [
        "/one",
        "/two",
        "/three",
        f"{ASCEND}/cann",
        f"{ASCEND}/ascend-toolkit/latest",
        f"{ASCEND}/nnae/latest",
        f"{ASCEND}/nnrt/latest",
        "/home/anna/Ascend/cann",
        "/home/anna/Ascend/ascend-toolkit/latest",
        "/home/anna/Ascend/nnae/latest",
        "/opt/conda/Ascend/cann",
        ASCEND,
    ]
    files: dict[str, Content] = {}
    for place in reversed(places):
        files.update(tree(place))
    variables = {
        "ASCEND_OPP_PATH": "/three/opp",
        "ASCEND_TOOLKIT_HOME": "/two/",
        "ASCEND_HOME_PATH": "/one",
        "CONDA_PREFIX": "/opt/conda",
    }
    found = find_installs(on(files), variables, "/home/anna")
    assert [install.path for install in found] == places
    names = [install.named_by for install in found[:4]]
    assert names == ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", ""]


def test_two_names_of_one_tree_are_one() -> None:
    files = on({**ERA_8_2, f"{ASCEND}/ascend-toolkit/8.2": link("./8.2.RC1")})
    paths = [f"{ASCEND}/ascend-toolkit/{name}" for name in ("latest", "8.2", "8.2.RC1", "latest/")]
    installs = [install_at(files, path) for path in paths]
    assert {install.real for install in installs if install} == {f"{ASCEND}/ascend-toolkit/8.2.RC1"}
    assert len({operators(files, path) for path in paths}) == 1


@pytest.mark.parametrize("path", ["/nowhere", "relative", "", "/"])
def test_what_is_no_installation(path: str) -> None:
    assert install_at(on(ERA_8_2), path) is None
    assert operators(on(ERA_8_2), path) is None


@pytest.mark.parametrize(
    ("version", "component", "old"),
    [
        ("5.0.4", None, True),
        ("5.1.RC2", None, True),
        ("20.2.rc1", None, True),
        ("6.0.RC1", None, False),
        ("8.1.RC1", "7.7.0.1.238", False),
        (None, "1.82.22.2.220", True),
        (None, "1.83.T8.0.B128", False),
        (None, "6.11.T1", False),
        (None, None, False),
    ],
)
def test_eras(version: Optional[str], component: Optional[str], old: bool) -> None:
    install = Install("/cann", "/cann", version, component, None, "toolkit")
    assert install.before_6 is old


def test_a_label_has_the_best_number_known() -> None:
    assert Install("/a", "/a", "8.1.RC1", "7.7", None, "toolkit").label == "/a (8.1.RC1)"
    assert Install("/a", "/a", None, "1.77", None, "toolkit").label == "/a (1.77)"
    assert Install("/a", "/a", None, None, None, "toolkit").label == "/a"


def test_where_the_script_lies() -> None:
    for files, script in (
        (ERA_8_2, f"{ASCEND}/ascend-toolkit/set_env.sh"),
        (ERA_9, f"{ASCEND}/cann/set_env.sh"),
    ):
        (install,) = find_installs(on(files), {}, "/root")
        assert set_env_script(on(files), install) == script
    (install,) = find_installs(on(ERA_5_0), {}, "/root")
    assert set_env_script(on(ERA_5_0), install) is None


@pytest.mark.parametrize(
    ("name", "value", "root"),
    [
        ("ASCEND_HOME_PATH", "/a/latest/", "/a/latest"),
        ("ASCEND_OPP_PATH", "/a/latest/opp/", "/a/latest"),
        ("ASCEND_OPP_PATH", "/a/operators", "/a/operators"),
    ],
)
def test_what_a_variable_names(name: str, value: str, root: str) -> None:
    assert named_root(name, value) == root


def test_a_named_place_that_is_closed_is_not_passed_over() -> None:
    files = on({**ERA_8_2, "/data/cann": unreadable(errno.EACCES)})
    with pytest.raises(CannotTell):
        find_installs(files, {"ASCEND_HOME_PATH": "/data/cann"}, "/root")


def test_a_closed_place_matters_only_when_nothing_else_is_there() -> None:
    closed: dict[str, Content] = {f"{ASCEND}/cann": unreadable(errno.EACCES)}
    assert len(find_installs(on({**ERA_8_2, **closed}), {}, "/root")) == 1
    with pytest.raises(CannotTell):
        find_installs(on(closed), {}, "/root")


def test_numbers_that_cannot_be_read_are_not_known() -> None:
    files = on({"/cann/opp/version.info": unreadable(errno.EACCES), "/cann/compiler/lib64": folder()})
    install = install_at(files, "/cann")
    assert install is not None
    assert (install.version, install.component) == (None, None)


def test_settings_are_read_tolerantly() -> None:
    text = '# version: 1.0\nVersion=8.1\n Install_Path = /usr/local/Ascend \nneeds=">=7.6, <=7.7"\nno pair\n'
    assert parse_settings(text) == {
        "version": "8.1",
        "install_path": "/usr/local/Ascend",
        "needs": ">=7.6, <=7.7",
    }


def test_a_home_that_is_closed_has_none_unless_it_is_named() -> None:
    files = on({"/home/me": unreadable(errno.EACCES)})
    assert find_installs(files, {}, "/home/me") == []
    with pytest.raises(CannotTell):
        find_installs(files, {"ASCEND_HOME_PATH": "/home/me/Ascend/cann"}, "/home/me")
    both = on({"/home/me": unreadable(errno.EACCES), f"{ASCEND}/cann": unreadable(errno.EACCES)})
    with pytest.raises(CannotTell, match=ASCEND):
        find_installs(both, {}, "/home/me")
