"""cann-install: every installation is found; what is wrong with the one in use is told."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.cann_trees import (
    ASCEND,
    CANN,
    LATEST,
    TOOLKIT,
    elf,
    healthy,
    later,
    latest,
    old,
    old_variables,
    release,
    sourced,
)
from tests.support.others import as_user, let_through

from npudoctor import Severity, Status
from npudoctor.checks.cann.cann_env import cann_env
from npudoctor.checks.cann.cann_install import cann_install
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import LocalDisk
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, link, unreadable


def told(files: Mapping[str, Content], **more: Any) -> Asked:
    return ask(cann_install, fake_host(files, **{"machine": "aarch64", "expect": "npu", **more}))


def without(files: Mapping[str, Content], word: str) -> dict[str, Content]:
    return {path: content for path, content in files.items() if word not in path}


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        (old(), old_variables()),
        (without(healthy("6.0.1", "1.84.15.1.310"), "opp_kernel"), sourced()),
        (without(healthy("7.0.RC1", "7.1.0.1.246"), "opp_kernel"), sourced()),
        (healthy("8.0.0", "7.6.0.1.220"), sourced()),
        (healthy(), sourced()),
        (healthy("8.3.RC1", "8.3.0.1.231"), sourced()),
        (later("8.5.0"), sourced(f"{CANN}-8.5.0")),
        (later("9.2.0-beta.2"), sourced(f"{CANN}-9.2.0-beta.2")),
        (later("9.0.0", root="/opt/conda/Ascend"), {"CONDA_PREFIX": "/opt/conda"}),
    ],
)
def test_quiet_on_each_healthy_era(files: Mapping[str, Content], variables: Mapping[str, str]) -> None:
    for exported in (variables, {name: variables[name] for name in variables if name == "CONDA_PREFIX"}):
        asked = told(files, variables=exported)
        assert (asked.status, asked.codes) == (Status.OK, []), asked.findings
        assert len(asked.facts["installs"]) == 1  # type: ignore[arg-type]


def test_conda_is_found_by_the_interpreter_too() -> None:
    asked = told(later(root="/opt/conda/Ascend"), python="/opt/conda/bin/python3")
    assert asked.facts["active"] == "/opt/conda/Ascend/cann"


def test_all_installs_and_why_one_is_in_use() -> None:
    files = {**healthy(), **release("8.0.RC3", "7.5.0.1.129"), f"{TOOLKIT}/8.1": link("./8.1.RC1")}
    asked = told(files)
    rows = asked.facts["installs"]
    assert isinstance(rows, list)
    assert [(row["path"], row["version"]) for row in rows] == [
        (LATEST, "8.1.RC1"),
        (f"{TOOLKIT}/8.0.RC3", "8.0.RC3"),
    ]
    assert (asked.facts["active"], asked.facts["why"]) == (LATEST, "first of the known places")
    named = told(files, variables=sourced(f"{TOOLKIT}/8.0.RC3"))
    assert (named.facts["active"], named.facts["why"]) == (f"{TOOLKIT}/8.0.RC3", "ASCEND_HOME_PATH")


def test_where_an_install_record_says() -> None:
    record = {"/etc/Ascend/ascend_cann_install.info": "version=1.0\nInstall_Path=/data/Ascend\n"}
    asked = told({**healthy(), **healthy(root="/data/Ascend/ascend-toolkit"), **record})
    assert asked.facts["active"] == "/data/Ascend/ascend-toolkit/latest"
    older = {"/etc/Ascend/ascend_cann_install.info": "Toolkit_InstallPath=/data/toolkit/\nwhat\n"}
    asked = told({"/data/toolkit/compiler/version.info": "Version=1.84.15.1.310\n", **older})
    assert asked.facts["active"] == "/data/toolkit"
    mine = {"/home/anna/Ascend/ascend_cann_install.info": "Install_Path=/data/Ascend\n"}
    asked = told({**healthy(root="/data/Ascend/ascend-toolkit"), **mine}, euid=1000, user="anna")
    assert asked.facts["active"] == "/data/Ascend/ascend-toolkit/latest"


@pytest.mark.parametrize("package", ["torch-npu", "mindspore", "vllm-ascend"])
def test_missing(package: str) -> None:
    asked = told({}, packages={package: "2.5.1"})
    assert (asked.codes, asked.status) == (["cann-install.missing"], Status.PROBLEM)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"packages": {"mindspore": "2.7.0"}, "expect": "none"},
        {"packages": {"mindspore": "2.7.0"}, "expect": "auto"},
        {"packages": {"torch-npu": "2.5.1"}, "expect": "none"},
        {"packages": {"torch-npu": "2.5.1"}, "expect": "auto"},
    ],
)
def test_skipped_without_cann(more: Mapping[str, Any]) -> None:
    asked = told({"/usr/local/Ascend/driver/version.info": "Version=25.0.1\n"}, **more)
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


def test_dangling_latest_that_is_a_link() -> None:
    asked = told({**later(), CANN: link("cann-8.3.0")})
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("cann-install.dangling-latest", Severity.ERROR)
    assert finding.evidence == (CANN, LATEST)
    assert finding.fix is not None
    assert finding.fix.commands == (f"ln -sfn {CANN}-8.5.0 {CANN}",)


@pytest.mark.parametrize(("uid", "root"), [(1000, False), (0, True), (7, True)])
def test_who_may_set_the_link(uid: int, root: bool) -> None:
    """It is the user's own line where the folder is the user's."""
    top = "/home/ann/Ascend/ascend-toolkit"
    files = {**release(root=top), f"{top}/latest": link("8.0.0"), top: folder(0o755, uid)}
    (finding,) = (one for one in told(files, euid=1000, user="ann").findings if one.fix)
    assert finding.fix is not None and finding.fix.commands == (f"ln -sfn {top}/8.1.RC1 {top}/latest",)
    assert finding.fix.needs_root is root


def test_dangling_latest_that_is_a_folder() -> None:
    asked = told({**release(kernels="7.7.0.1.238"), **latest("8.0.0")})
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("cann-install.dangling-latest", Severity.ERROR)
    assert f"{LATEST}/compiler" in finding.evidence
    assert finding.fix is not None and finding.fix.commands == ()


def test_one_dangling_part() -> None:
    files = {**healthy(), f"{LATEST}/toolkit": link("../8.0.0/toolkit")}
    assert [finding.severity for finding in told(files).findings] == [Severity.WARNING]
    files = {**healthy(), f"{LATEST}/opp": link("../8.0.0/opp")}
    assert [finding.severity for finding in told(files).findings] == [Severity.ERROR]


def test_dangling_where_another_is_in_use_is_only_told() -> None:
    asked = told({**healthy(), f"{ASCEND}/nnae/latest": link("8.0.RC3")})
    assert [finding.severity for finding in asked.findings] == [Severity.INFO]
    named = told(
        {**healthy(), f"{ASCEND}/nnae/latest": link("8.0.RC3")},
        variables={"ASCEND_OPP_PATH": f"{ASCEND}/nnae/latest/opp"},
    )
    assert [finding.severity for finding in named.findings] == [Severity.ERROR]


def test_mixed() -> None:
    files = {**healthy(), **release("8.0.0", "7.6.0.1.220"), **latest(opp="8.0.0")}
    (finding,) = told(files).findings
    assert finding.code == "cann-install.mixed-latest"
    assert f"{TOOLKIT}/8.0.0: opp" in finding.evidence


def test_kernels_beside_a_mixture_are_an_echo() -> None:
    files = {**healthy(), **release("8.0.0", "7.6.0.1.220"), **latest(toolkit="8.0.0")}
    files[f"{TOOLKIT}/8.0.0/toolkit/version.info"] = (
        'Version=7.6.0.1.220\nrequired_package_opp_kernel_version="7.6"\n'
    )
    mixed, kernels = told(files).findings
    assert (mixed.code, mixed.echo_of) == ("cann-install.mixed-latest", ())
    assert (kernels.code, kernels.echo_of) == ("cann-install.kernels-other-version", (mixed.code,))


def test_kernels_missing_only_where_npus_are_used() -> None:
    bare = without(healthy(), "opp_kernel")
    assert told(bare).codes == ["cann-install.kernels-missing"]
    assert told(bare).findings[0].severity is Severity.WARNING
    assert told(bare, expect="none").codes == []
    assert told(bare, expect="auto").codes == []


def test_ops_missing_is_inferred() -> None:
    (finding,) = told(without(later(), "ops_install")).findings
    assert (finding.code, finding.severity) == ("cann-install.kernels-missing", Severity.INFO)


@pytest.mark.parametrize(
    ("product", "component", "kernels", "codes"),
    [
        ("8.1.RC1", "7.7.0.1.238", "7.6.0.1.220", []),  # the release accepts it
        ("8.1.RC1", "7.7.0.1.238", "7.5.0.1.129", ["cann-install.kernels-other-version"]),
        ("8.1.RC1", "7.7.0.1.238", "8.2.0.0.201", ["cann-install.kernels-other-version"]),
        ("8.0.0", "7.6.0.1.220", "7.6.0.1.219", []),
        ("8.0.0", "7.6.0.1.220", "7.5.0.1.129", ["cann-install.kernels-other-version"]),
        ("8.0.0", "7.6.0.1.220", "what", []),
    ],
)
def test_kernels_of_another_version(product: str, component: str, kernels: str, codes: list[str]) -> None:
    files = {**release(product, component, kernels=kernels), **latest(product)}
    assert told(files).codes == codes


@pytest.mark.parametrize(
    ("ops", "codes"),
    [
        ("8.5.0", []),
        ("8.5.1", []),  # a patch of the same line
        ("9.2.0-beta.1", []),  # from 9.0 on, ops and toolkit are upgraded each by itself
        ("8.3.RC1", ["cann-install.kernels-other-version"]),
    ],
)
def test_ops_of_another_version(ops: str, codes: list[str]) -> None:
    path = f"{CANN}-8.5.0/aarch64-linux/ascend_ops_install.info"
    files = {**later(), path: f"package_name=Ascend-cann-910b-ops\nversion={ops}\n"}
    assert told(files).codes == codes


def test_another_machine() -> None:
    (finding,) = told(healthy(), machine="x86_64").findings
    assert (finding.code, finding.severity) == ("cann-install.wrong-machine", Severity.ERROR)
    other = {
        **without(healthy(), "libascendcl"),
        f"{TOOLKIT}/8.1.RC1/aarch64-linux/lib64/libhccl.so": elf(183),
    }
    (finding,) = told(other, machine="x86_64").findings
    assert (finding.code, finding.severity) == ("cann-install.wrong-machine", Severity.ERROR)


def test_that_the_record_names_another_machine_is_only_told() -> None:
    """That `arch=` there must be this machine's is inferred; nothing of the installation proves it."""
    asked = told(without(healthy(), "libascendcl"), machine="x86_64")
    assert (asked.status, asked.codes) == (Status.OK, ["cann-install.wrong-machine"])
    assert asked.findings[0].severity is Severity.INFO
    assert told(without(healthy(), "libascendcl"), machine="arm64").codes == []


def test_a_toolkit_for_two_machines() -> None:
    both = {
        **without(healthy(), "libascendcl"),
        f"{TOOLKIT}/8.1.RC1/x86_64-linux/ascend_toolkit_install.info": "version=8.1.RC1\narch=x86_64\n",
    }
    assert told(both, machine="x86_64").codes == told(both).codes == []


def test_the_interpreters_own_header_tells_the_machine() -> None:
    assert told({**healthy(), "/usr/bin/python3": elf(62)}).codes == ["cann-install.wrong-machine"]


@pytest.mark.parametrize("part", ["opp", "python", "aarch64-linux"])
def test_not_readable(part: str) -> None:
    asked = told({**healthy(), f"{TOOLKIT}/8.1.RC1/{part}": unreadable(errno.EACCES)}, variables=sourced())
    assert asked.codes == ["cann-install.not-readable"]
    assert asked.findings[0].severity is Severity.ERROR


@pytest.mark.parametrize(("variables", "weight"), [(sourced(), Severity.ERROR), ({}, Severity.WARNING)])
def test_all_of_it_not_readable(variables: Mapping[str, str], weight: Severity) -> None:
    (finding,) = told({TOOLKIT: unreadable(errno.EACCES)}, variables=variables).findings
    assert (finding.code, finding.severity) == ("cann-install.not-readable", weight)
    assert "Permission denied" in finding.message


def test_a_library_for_root_alone() -> None:
    path = f"{TOOLKIT}/8.1.RC1/aarch64-linux/lib64/libascendcl.so"
    files = {**healthy(), path: Node(elf(183), permissions=0o600)}
    (finding,) = told(files, euid=1000, user="anna").findings
    assert finding.code == "cann-install.not-readable" and "lib64/libascendcl.so" in finding.message
    assert told(files).codes == []


def _real(tmp_path: Path, change: Callable[[Path], None]) -> Asked:
    """What a user who owns nothing of it is told of a real tree."""
    root = tmp_path / "cann"
    for part in ("opp", "compiler", "runtime", "python/site-packages/te", "lib64"):
        (root / part).mkdir(parents=True)
        (root / part / "version.info").write_text("Version=7.7.0.1.238\n")
    (root / "lib64" / "libascendcl.so").write_bytes(elf(183))
    change(root)
    let_through(tmp_path)
    host = fake_host(variables={"ASCEND_HOME_PATH": str(root)}, machine="aarch64", expect="npu")

    def answer() -> Asked:
        python, named = host.interpreter, host.variables
        return ask(cann_install, Host(OPTIONS, disk=LocalDisk(), variables=named, interpreter=python))

    return as_user(NOBODY, answer)


NOBODY, OPTIONS = 65534, Options(expect="npu")
STATUS = "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t\n"


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("part", "mode", "codes"),
    [
        ("compiler", 0o711, []),
        ("lib64", 0o711, []),
        ("compiler", 0o700, ["cann-install.not-readable"]),
        ("python/site-packages", 0o711, ["cann-install.not-readable"]),
        ("python/site-packages/te", 0o700, ["cann-install.not-readable"]),
        ("lib64/libascendcl.so", 0o600, ["cann-install.not-readable"]),
    ],
)
def test_real_modes(tmp_path: Path, part: str, mode: int, codes: list[str]) -> None:
    """The loader enters folders; Python lists them, and passes over those that it cannot."""
    asked = _real(tmp_path, lambda root: (root / part).chmod(mode))
    assert [code for code in asked.codes if code == "cann-install.not-readable"] == codes, asked


@pytest.mark.parametrize(
    ("part", "mode", "closed"),
    [("opp", 0o700, True), ("opp", 0o711, False), ("python/site-packages", 0o711, True)],
)
def test_root_judges_for_the_user_of_the_job(part: str, mode: int, closed: bool) -> None:
    """--env-of: root reads all, so modes tell what the job may."""
    files = {**healthy(), f"{TOOLKIT}/8.1.RC1/{part}": folder(mode)}
    files["/proc/7/status"] = STATUS.format(uid=NOBODY)
    asked = told(files, variables=sourced(), options=Options(env_of=7))
    assert asked.codes == (["cann-install.not-readable"] if closed else [])


def test_what_lies_in_the_home_of_the_jobs_user() -> None:
    """--env-of: root's own home does not count."""
    top = "/home/ann/Ascend/ascend-toolkit"
    files = {
        **healthy(root=top),
        "/proc/7/status": STATUS.format(uid=NOBODY),
        "/home/ann": folder(0o700, NOBODY),
    }
    for more, variables in (
        ({}, {"HOME": "/home/ann"}),
        ({"/etc/passwd": f"ann:x:{NOBODY}:{NOBODY}::/home/ann:/bin/sh\n"}, {}),
    ):
        machine = {"options": Options(env_of=7), "expect": "npu", "packages": {"torch-npu": "2.5.1"}}
        asked = told({**files, **more}, variables=variables, **machine)
        assert asked.facts["active"] == f"{top}/latest"
        env = ask(cann_env, fake_host({**files, **more}, variables=variables, **machine))  # type: ignore[arg-type]
        assert env.codes == ["cann-env.not-sourced"]
        assert env.findings[0].severity is Severity.ERROR


def test_cannot_tell_when_the_disk_does_not_answer() -> None:
    assert told({TOOLKIT: unreadable(errno.EIO)}).status is Status.UNKNOWN
    assert told({**healthy(), f"{TOOLKIT}/8.1.RC1/opp": unreadable(errno.EIO)}).status is Status.UNKNOWN


def test_in_an_image(tmp_path: Path) -> None:
    """Real files and links below a real root; the host's variables do not count."""
    for path, content in {**healthy(), **release("8.0.0", "7.6.0.1.220"), **latest(opp="8.0.0")}.items():
        below = tmp_path / path[1:]
        below.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            below.write_bytes(content)
        elif isinstance(content, str):
            below.write_text(content)
        elif content.target:
            below.symlink_to(content.target)
        else:
            below.mkdir(exist_ok=True)
    (tmp_path / "usr/bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), tmp_path / "usr/bin/python3")
    host = Host(Options(root=str(tmp_path), expect="npu"), variables={"ASCEND_HOME_PATH": "/elsewhere"})
    asked = ask(cann_install, host)
    host.close()
    codes = ["cann-install.mixed-latest"]
    assert asked.codes == (
        codes if platform.machine() == "aarch64" else [*codes, "cann-install.wrong-machine"]
    )
    assert asked.facts["active"] == LATEST


def test_users_of_an_image() -> None:
    files = {f"/img{path}": text for path, text in later(root="/home/anna/Ascend").items()}
    files["/img/home/anna"] = folder()
    asked = told(files, root="/img")
    assert asked.facts["active"] == "/home/anna/Ascend/cann"


def test_a_folder_in_place_of_a_library_is_no_question_of_this_check() -> None:
    files = healthy()
    path = f"{LATEST}/lib64/libhccl.so"
    asked = told({**files, path: folder()}, variables=sourced())
    assert (asked.status, asked.codes) == (Status.OK, [])


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(cann_install, fake_host())
    yield ask(cann_install, fake_host(packages={"torch-npu": "2.5.1"}, expect="npu"))
    for tree in ({TOOLKIT: unreadable()}, {**healthy(), f"{TOOLKIT}/8.1.RC1/opp": unreadable()}):
        for variables in ({}, sourced()):
            yield ask(cann_install, fake_host(tree, variables=variables, machine="aarch64"))
    gone = {**release(), **latest("8.0.0")}
    yield ask(cann_install, fake_host(gone, machine="aarch64"))
    yield ask(cann_install, fake_host({**later(), CANN: link("cann-8.3.0")}, machine="aarch64"))
    two = {**healthy(), **release("8.0.0", "7.6.0.1.220"), **latest("8.1.RC1", opp="8.0.0")}
    yield ask(cann_install, fake_host(two, machine="x86_64"))
    bare = {path: content for path, content in healthy().items() if "opp_kernel" not in path}
    yield ask(cann_install, fake_host(bare, machine="aarch64", expect="npu"))
    bare = {path: content for path, content in later().items() if "ops_install" not in path}
    yield ask(cann_install, fake_host(bare, machine="aarch64", expect="npu"))
    other = {**healthy(), f"{TOOLKIT}/8.1.RC1/opp_kernel/version.info": "Version=7.5.0.1.129\n"}
    yield ask(cann_install, fake_host(other, machine="aarch64"))
    no_library = {path: content for path, content in healthy().items() if "libascendcl" not in path}
    yield ask(cann_install, fake_host(no_library, machine="x86_64", variables={"ASCEND_HOME_PATH": LATEST}))
    yield ask(cann_install, fake_host({f"{ASCEND}/nnae/latest": link("8.0.RC3"), **healthy()}))
