"""What `make new-check` writes: a check, its test and its fault, and what differs from group to group.

The texts are templates of `string.Template`: $id is driver-version, $name driver_version.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

# Most checks read a file of the machine, so a skeleton does that unless its group says otherwise.
CHECK = Template('''"""TODO: the question that this check answers, in one line."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import $names
$imports
$constants


@check(
    "$id",
    scope=Scope.$scope,
$options    # TODO: choose codes for ever; an ERROR also has a sentence in src/npudoctor/checking/by_hand.py.
    codes={"$id.wrong": $severity},
)
def $name(host: Host) -> Iterator[Finding]:
    """TODO: what is true when all is well, in at most nine words.

    ## What it does

    TODO: what the check reads, and what it compares that with.

    - `$id.wrong`: TODO: when it is found.

    ## Why it matters

    TODO: how the job fails, with the words of the log.

    ## References

    TODO: the document, the issue or the source file that says so.
    """
$body''')

TEST = Template('''"""$id: quiet when well, speaks when ill, skipped, and cannot tell."""

from __future__ import annotations

${modules}from collections.abc import Iterator
from pathlib import Path
$standard
import pytest
$tests
from npudoctor import Severity, Status
from npudoctor.checks.$group.$name import $imported
$testing

def judge($parameters) -> Asked:
    """The answer of the check on a machine that has nothing else."""
    return $answer


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each skip and each unknown: a release reads these sentences in Chinese."""
    yield judge($ill)
    yield judge($absent)
    yield judge($unclear)


def test_quiet_when_well() -> None:
    asked = judge($well)
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_speaks_when_ill() -> None:
    (finding,) = judge($ill).findings
    assert (finding.code, finding.severity) == ("$id.wrong", Severity.$severity)
    assert $shown in finding.message$remedy


def test_skipped_where_it_does_not_apply() -> None:
    assert judge($absent).status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert judge($unclear).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "path",
    [
        "checks/$group/$name.py",
        "src/npudoctor/rehearsal/faults/$module.py",
    ],
)
def test_nothing_is_left_to_do(path: str) -> None:
    """Delete this test, and the import of pytest, when it passes."""
    left = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if "TODO" in line]
    assert not left, f"{path}: {left}"
''')

# Added to a module that is there: the list of faults is made of these modules.
FAULT = Template("""

@register_fault(
    "$id",
    "$id.wrong",
    _("TODO: what is wrong on the machine that is rehearsed"),
$more    real=False,
)
def _rehearse_$name(stage: Stage) -> None:
$scene""")

READ = """\
    text = host.files.text($path)  # a file that this user may not read ends the check as unknown
    if text is None:
        raise Skip(_("{path} does not exist", path=$path))
    value = text.strip()
    if not value:
        raise Unknown(_("{path} is empty", path=$path))
    if value != WANTED:
        message = _("{path} contains {value}; {wanted} is required", path=$path, value=value, wanted=WANTED)
        yield Finding("$id.wrong", message, evidence=(f"{$path}: `{value}`",))
"""
WANTED = 'WANTED = "well"  # TODO: what it must contain'
ANYWHERE = '# TODO: any machine has this: add "$id" to MACHINE of tests/scenarios/test_empty.py'


@dataclass(frozen=True)
class Skeleton:
    """The parts of the three texts that differ from group to group.

    `module`: the file of rehearsal/faults that gets the fault. `names`: what the check imports from
    npudoctor. `options`, `more`: further arguments of @check and @fault, a line each. `answer`: how the test
    asks the check; `well`, `ill`, `absent`, `unclear`: the arguments of `judge` for each ending. `shown`:
    what the message of the finding must contain. `scene`: what the fault does to the machine.
    """

    module: str
    scene: str
    body: str = READ.replace("$path", "PATH")
    constants: str = f'PATH = "/etc/$id.conf"  # TODO: the file that is read\n{WANTED}'
    names: str = "WARNING, Finding, Host, Scope, Skip, Unknown, _, check"
    imports: str = ""
    scope: str = "NODE"
    options: str = ""
    severity: str = "WARNING"
    modules: str = ""
    standard: str = ""
    tests: str = ""
    imported: str = "PATH, $name"
    testing: str = "from npudoctor.testing import Asked, Content, ask, fake_host\n"
    parameters: str = "files: dict[str, Content]"
    answer: str = "ask($name, fake_host(files))"
    well: str = '{PATH: "well"}'
    ill: str = '{PATH: "ill"}'
    absent: str = "{}"
    unclear: str = '{PATH: ""}'
    shown: str = '"ill"'
    remedy: str = ""
    more: str = ""


SKELETONS = {
    "host": Skeleton(
        module="system",
        scene='    stage.write("/etc/$id.conf", "ill\\n")  # TODO: the real file\n',
    ),
    # fake_host() has no NPU unless it expects one; without, `needs` would skip the check.
    "device": Skeleton(
        module="accelerators",
        scene='    stage.add_npus()\n    stage.write("/etc/$id.conf", "ill\\n")  # TODO: the real file\n',
        options='    tags={"ascend"},\n    needs=("npu",),\n',
        answer='ask($name, fake_host(files, expect="npu"))',
    ),
    "gpu": Skeleton(
        module="accelerators",
        scene='    stage.add_gpus()\n    stage.write("/etc/$id.conf", "ill\\n")  # TODO: the real file\n',
        options='    tags={"nvidia"},\n    needs=("gpu",),\n',
        answer='ask($name, fake_host(files, expect="gpu"))',
    ),
    # CANN is anywhere: the file is named below the installation in use, which the fault must make, too.
    "cann": Skeleton(
        module="environment",
        scene="""\
    cann = "/usr/local/Ascend/ascend-toolkit/latest"
    stage.write(f"{cann}/compiler/version.info", "Version=7.7.0.1.238\\nversion_dir=8.1.RC1\\n")
    stage.write(f"{cann}/$id.conf", "ill\\n")  # TODO: the real file
""",
        imports="from npudoctor.facts.cann.installations import install_in_use\n",
        constants=f'FILE = "$id.conf"  # TODO: the file that is read, below the installation\n{WANTED}',
        options='    tags={"ascend"},\n    needs=("cann",),\n',
        body="""\
    install = install_in_use(host)
    if install is None:
        raise Skip(_("CANN is not installed on this machine"))
    path = f"{install.path}/{FILE}"
"""
        + READ.replace("$path", "path"),
        tests="from tests.checks.cann.driver_machine import LATEST, cann\n",
        imported="FILE, $name",
        testing="""\
from npudoctor.testing import Asked, Content, ask, fake_host

PATH = f"{LATEST}/{FILE}"
""",
        answer="ask($name, fake_host({**cann(), **files}))",
    ),
    # HCCL and gloo take interfaces from variables, so this compares one with what the kernel has.
    "network": Skeleton(
        module="network",
        scene=(
            '    stage.add_npus()\n    stage.variables["$variable"] = "ens17f9"  # TODO: the real variable\n'
        ),
        constants='VARIABLE = "$variable"  # TODO: the variable that is read',
        scope="JOB",
        options='    tags={"hccl"},\n    needs=(f"$${VARIABLE}",),\n',
        body="""\
    name = host.variables.get(VARIABLE)
    if name is None:
        raise Skip(_("{variable} is not set", variable=VARIABLE))
    if not name:
        raise Unknown(_("{variable} is empty", variable=VARIABLE))
    if host.network.interface_named(name) is None:
        message = _("{variable}={name}: this machine has no such interface", variable=VARIABLE, name=name)
        yield Finding("$id.wrong", message, evidence=(f"{VARIABLE}={name}",))
""",
        imported="VARIABLE, $name",
        testing="""\
from npudoctor.testing import Asked, FakeNetwork, ask, fake_host, interface

NETWORK = FakeNetwork([interface("lo", "127.0.0.1"), interface("eth0", "192.0.2.1/24")])
""",
        parameters="variables: dict[str, str]",
        answer="ask($name, fake_host(variables=variables, network=NETWORK))",
        well='{VARIABLE: "eth0"}',
        ill='{VARIABLE: "ens17f9"}',
        unclear='{VARIABLE: ""}',
        shown='"ens17f9"',
    ),
    # Versions are compared as pip does, never as texts.
    "python": Skeleton(
        module="environment",
        scene='    stage.add_package("$id", "1.0")  # TODO: the real distribution\n',
        names="WARNING, Finding, Host, Scope, Skip, _, check",
        imports="from npudoctor.host.python.requirements import parse_version\n",
        constants='PACKAGE = "$id"  # TODO: the distribution\nLEAST = "2.0"  # TODO: the oldest that works',
        scope="JOB",
        options="    needs=(PACKAGE,),\n",
        body="""\
    from packaging.version import Version  # here, as it would slow every start down

    copies = host.interpreter.distributions(PACKAGE)
    if not copies:
        raise Skip(_("{name} is not installed in {python}", name=PACKAGE, python=host.interpreter.label))
    version = parse_version(copies[0])  # a version that cannot be parsed ends the check as unknown
    if version < Version(LEAST):
        text = _("{name} {version} is too old (needs >={least})", name=PACKAGE, version=version, least=LEAST)
        yield Finding("$id.wrong", text, evidence=(copies[0].evidence,))
""",
        imported="PACKAGE, $name",
        testing="from npudoctor.testing import Asked, ask, fake_host\n",
        parameters="packages: dict[str, str]",
        answer="ask($name, fake_host(packages=packages))",
        well='{PACKAGE: "2.0"}',
        ill='{PACKAGE: "1.0"}',
        unclear='{PACKAGE: "newest"}',
        shown='"1.0"',
    ),
    # Advice decides nothing, and its lines can be taken back: tests/checks/tuning/test_everywhere.py.
    "tuning": Skeleton(
        module="tuning",
        scene='    stage.add_npus()\n    stage.write("/sys/kernel/$id", "slow\\n")  # TODO: the real file\n',
        names="INFO, Finding, Host, Scope, Unknown, _, check",
        imports="from npudoctor.checks.tuning._settings import advise, read_setting, write_setting\n",
        constants=(
            'PATH = "/sys/kernel/$id"  # TODO: the setting; for one of /proc/sys see numa_balancing.py\n'
            'FAST = "fast"  # TODO: the value to advise'
        ),
        options='    needs=("npu", "gpu"),\n    advisory=True,\n',
        severity="INFO",
        body="""\
    value = read_setting(host, PATH)  # skips the check where the kernel has no such setting
    if not value:
        raise Unknown(_("{path} is empty", path=PATH))
    if value != FAST:
        message = _("{path} is {value}; {fast} is faster", path=PATH, value=value, fast=FAST)
        title = _("set {path} to {fast} until the next boot", path=PATH, fast=FAST)
        steps = [write_setting(PATH, FAST, value)]
        yield advise(host, "$id.wrong", message, title, steps, f"{PATH}: `{value}`")
""",
        tests="from tests.checks.tuning.tuned_machine import judge as judge_tuned\n",
        imported="FAST, PATH, $name",
        testing="from npudoctor.testing import Asked, Content\n",
        answer="judge_tuned($name, files)",
        well="{PATH: FAST}",
        ill='{PATH: "slow"}',
        shown='"slow"',
        remedy=(
            "\n    assert finding.fix is not None\n"
            "    assert finding.fix.commands == (f\"sh -c 'echo {FAST} > {PATH}'\",)"
        ),
        more="    remedy=TYPED,\n",
    ),
    # Named only: what removes a thing needs a proof, and so a rule of src/npudoctor/proof.
    "leftovers": Skeleton(
        module="leftovers",
        scene='    stage.write("/tmp/$id-1", "")  # TODO: what a dead job leaves\n',
        names="INFO, Finding, Host, Scope, _, check",
        imports="from npudoctor.checks.leftovers._owner_selection import select_owner\n",
        constants=(
            'FOLDER = "/tmp"  # noqa: S108  (only read)\n'
            'PREFIX = "$id-"  # TODO: how the names of the left-overs begin\n'
            f"{ANYWHERE}"
        ),
        scope="JOB",
        severity="INFO",
        body="""\
    selected = select_owner(host)  # skips the check where --job limits it: no file names a job
    for name in host.running_files.names(FOLDER):
        path = f"{FOLDER}/{name}"
        entry = host.running_files.lstat(path) if name.startswith(PREFIX) else None
        if entry is not None and selected(entry.uid):
            message = _("{path} is left over; nobody can tell whether a job uses it", path=path)
            yield Finding("$id.wrong", message, evidence=(f"uid {entry.uid}",))
""",
        standard="from typing import Optional\n",
        imported="FOLDER, PREFIX, $name",
        testing=(
            "from npudoctor.host import Options\n"
            "from npudoctor.testing import Asked, Content, ask, fake_host, unreadable\n"
        ),
        parameters="files: dict[str, Content], options: Optional[Options] = None",
        answer="ask($name, fake_host(files, options=options))",
        well='{f"{FOLDER}/other": ""}',
        ill='{f"{FOLDER}/{PREFIX}1": ""}',
        absent='{}, Options(only_job="7")',
        unclear="{FOLDER: unreadable()}",
        shown='f"{FOLDER}/{PREFIX}1"',
    ),
    # A part is a script of its own, run by the job's Python; this borrows one that is there.
    "trial": Skeleton(
        module="system",
        scene="    stage.limits.append((resource.RLIMIT_AS, 900 * MIB))  # TODO: what refuses it\n",
        names="WARNING, Finding, Host, Scope, _, check",
        imports="from npudoctor.checks.trial._trying import raise_if_incomplete, skip_unless_allowed\n",
        constants=(
            'PART = "memory"  # TODO: the script of src/npudoctor/trial/parts that tries it\n'
            "SIZE = 4 << 30  # bytes\n"
            f"{ANYWHERE}"
        ),
        scope="JOB",
        options="    quick=False,\n",
        body="""\
    skip_unless_allowed(host)  # skips the check for root, unless --as-user or --env-of says whose job it is
    trial = host.trials.try_part(PART, reserve=SIZE, touch=False)  # TODO: the questions of this part
    for attempt in trial.refused():
        message = _("{step} was refused: {why}", step=attempt.what, why=attempt.reason)
        yield Finding("$id.wrong", message)
    raise_if_incomplete(trial)  # a trial that did not come to its end makes the check unknown
""",
        modules="import errno\n",
        imported="PART, $name",
        testing="""\
from npudoctor.testing import Asked, ask, fake_host
from npudoctor.trial.trials import Attempt, Trial
""",
        parameters="trial: Trial, euid: int = 1000",
        answer='ask($name, fake_host(euid=euid, user="li", trials={PART: trial}))',
        well='Trial((Attempt("reserve"),))',
        ill='Trial((Attempt("reserve", errno.ENOMEM),))',
        absent="Trial(), euid=0",
        unclear='Trial(hung="reserve")',
        shown='"reserve"',
        more='    options=("--as-user", "root") if os.geteuid() == 0 else (),\n',
    ),
    # What is imported is imported in a child of the job's Python, never here.
    "deep": Skeleton(
        module="environment",
        scene="""\
    stage.add_package("$id", "1.0", code='raise ImportError("no libx.so")\\n')  # TODO: its words
""",
        names="WARNING, Finding, Host, Scope, Skip, _, check",
        imports=(
            "from npudoctor.checks.deep._probe_failures import "
            "explain_failure, probe_imports, report_failure\n"
        ),
        constants='PACKAGE, MODULE = "$id", "$name"  # TODO: the distribution, and what a job imports of it',
        scope="JOB",
        options="    needs=(PACKAGE,),\n    quick=False,\n",
        body="""\
    if not host.interpreter.distributions(PACKAGE):
        raise Skip(_("{name} is not installed in {python}", name=PACKAGE, python=host.interpreter.label))
    probed = probe_imports(host, (MODULE,))  # where no time is left for it the check is unknown
    if probed.document is None:
        failure = explain_failure(host, probed)
        message = _("import {module} fails: {ending}", module=MODULE, ending=failure.sentence)
        yield report_failure("$id.wrong", message, failure)
""",
        modules="import math\nimport time\n",
        tests=(
            "from tests.checks.deep.probe_machine import Says, each, ends\n"
            "from tests.checks.deep.probe_machine import asked as ask_probe\n"
        ),
        imported="PACKAGE, $name",
        testing="from npudoctor.testing import Asked\n",
        parameters="says: Says, *packages: str, until: float = math.inf",
        answer="ask_probe($name, says, *packages, until=until)",
        well='each({"seconds": 1.0, "versions": {}, "bytes": 1}), PACKAGE',
        ill='ends(ended="exited", status=1, stderr="ImportError: libx.so.1"), PACKAGE',
        absent='ends(ended="exited")',
        unclear='ends(ended="exited"), PACKAGE, until=time.monotonic()',
        shown='"fails: "',
        more='    options=("--profile", "deep"),\n',
    ),
}
