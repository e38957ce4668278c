"""The deep checks with real children: a framework of a few lines that behaves and misbehaves."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Optional

import pytest
from tests.checks.deep.probe_machine import asked, died, dies_too_late, each, ends, machine, package

from npudoctor import Severity, Status
from npudoctor.checks.deep._probe_failures import explain_failure
from npudoctor.checks.deep.framework_imports import framework_imports
from npudoctor.checks.deep.framework_imports import framework_imports as check
from npudoctor.facts.job.probes import NoTimeLeft, probe
from npudoctor.host import CannotTell
from npudoctor.testing import Asked, ask

pytestmark = pytest.mark.whole

FORGED = 'print("\\nNPUDOCTOR {\\"seconds\\": 0, \\"bytes\\": 0, \\"versions\\": {}}")\n'


def imported(site: Path, source: str, **variables: str) -> Asked:
    package(site, "torch", source)
    host = machine(site, variables=variables)
    try:
        return ask(framework_imports, host)
    finally:
        host.close()


def test_an_import_that_works(site: Path) -> None:
    told = imported(site, "x = bytearray(64 << 20)")
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts["versions"] == {"torch": "2.13.0"}
    seconds, memory = told.facts["seconds"], told.facts["bytes"]
    assert isinstance(seconds, dict) and 0 <= seconds["torch"] < 60
    assert isinstance(memory, dict) and memory["torch"] >= 32 << 20


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise ImportError('no')", "ImportError: no (in {torch}:2)"),
        ("import gone.more", "the module gone is not installed; {torch} imports it"),
        ("import json.gone", "the module json.gone is not installed; {torch} imports it"),
        ("from json import gone", "cannot import name 'gone' from 'json'"),
        ("import json; json.gone", "module 'json' has no attribute 'gone'"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "killed by signal 11 (SIGSEGV) in {torch}:2",
        ),
        ("import os; os._exit(0)", "Python exited early with status 0"),
        ("import os; os._exit(7)", "exit status 7"),
        (f"{FORGED}raise SystemExit(0)", "Python exited early with status 0: {torch}:3 makes Python exit"),
        (f"import os, sys\n{FORGED}sys.stdout.flush(); os._exit(0)", "Python exited early with status 0"),
        (f"{FORGED}raise SystemExit(3)", "exit status 3: {torch}:3 makes Python exit"),
        ("raise MemoryError()", "{torch} ran out of memory: MemoryError"),
        (
            "class Odd(Exception):\n    def __str__(self): raise OSError\nraise Odd",
            "torch.Odd (in {torch}:4)",
        ),
    ],
)
def test_an_import_that_fails(site: Path, source: str, sentence: str) -> None:
    told = imported(site, source)
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("framework-imports.failed", Severity.ERROR)
    expected = sentence.format(torch=site / "torch" / "__init__.py")
    assert finding.message.startswith("import torch fails: ")
    assert expected in finding.message


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * (10 << 20), flush=True)",
        "import sys; sys.stderr.write('y' * (10 << 20))",
        "import os; os.close(1)",
        "import os; os.close(1); os.close(2)",
        "import sys; sys.stdout.close(); sys.argv[1:] = ['nonsense']",
        "import os; os.chdir('/')",
    ],
)
def test_what_an_import_may_do(site: Path, source: str) -> None:
    told = imported(site, source)
    assert (told.status, told.codes) == (Status.OK, [])


def test_output_is_bounded_and_its_end_is_kept(site: Path) -> None:
    package(site, "torch", "print('x' * (10 << 20), flush=True)\nraise ImportError('in the end')")
    host = machine(site)
    probed = probe(host, "imports.py", ("torch",), 60.0)
    host.close()
    assert len(probed.output) < 3 << 20
    assert probed.last_line == "ImportError: in the end"


def test_one_that_hangs_costs_its_own_time_and_the_others_are_tried(site: Path) -> None:
    package(site, "torch", "import time; time.sleep(600)")
    host = machine(site)
    started = time.monotonic()
    probed = probe(host, "imports.py", ("torch",), 1.0)
    assert probed.document is None and probed.ending.startswith("no answer within ")
    assert time.monotonic() - started < 20
    host.close()
    told = asked(framework_imports, ends(ended="timeout", seconds=120.0), "torch", "mindspore")
    assert [finding.message for finding in told.findings] == [
        "import torch, mindspore fails: no answer within 120 s"
    ]


def test_the_deadline_of_the_run_is_no_failure_of_an_import(site: Path) -> None:
    package(site, "torch", "import time; time.sleep(600)")
    package(site, "mindspore", "")
    host = machine(site, until=time.monotonic() + 9.0)
    told = ask(framework_imports, host)
    host.close()
    assert (told.status, told.codes) == (Status.UNKNOWN, [])
    assert told.reason == "no result before the deadline of the run: torch, mindspore"
    with pytest.raises(NoTimeLeft):
        probe(machine(site, until=time.monotonic() + 1.0), "imports.py", ("mindspore",), 120.0)


def processes_with(text: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_bytes() if name.isdigit() else b""
        except OSError:
            continue
        if text.encode() in words:
            found.append(name)
    return found


@pytest.mark.parametrize("session", ["False", "True"])
def test_what_it_leaves_running_is_ended(site: Path, session: str) -> None:
    stays = f"import time; time.sleep(600)  # {site}"
    start = f"subprocess.Popen([sys.executable, '-c', {stays!r}], start_new_session={session})"
    told = imported(site, f"import subprocess, sys\n{start}")
    assert (told.status, told.codes) == (Status.OK, [])
    until = time.monotonic() + 5
    while processes_with(str(site)) and time.monotonic() < until:
        time.sleep(0.01)
    assert processes_with(str(site)) == []


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)", ":4"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass", ":"),
        ("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nsignal.pause()", ""),
        ("import os\nos.execv('/bin/sleep', ['sleep', '300'])", ""),
        ("import os, time\nos.closerange(0, 50)\ntime.sleep(300)", ""),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=[300]).start()\n1 / 0", None),
    ],
    ids=["ignores SIGTERM", "stops itself", "blocks all", "becomes another", "closes all", "a thread stays"],
)
def test_whatever_hangs_is_over_at_its_deadline(site: Path, source: str, where: Optional[str]) -> None:
    package(site, "torch", source)
    host = machine(site)
    started = time.monotonic()
    probed = probe(host, "imports.py", ("torch",), 3.0)
    assert time.monotonic() - started < 20
    assert probed.answer.ended == "timeout"
    if where is None:
        assert probed.raised and probed.raised[0].type == "ZeroDivisionError"
    elif where:
        failure = explain_failure(host, probed)
        assert f"it waits in {site}/torch/__init__.py{where}" in failure.sentence
    host.close()
    assert processes_with(str(site)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.Popen(['/bin/sleep', '300'], start_new_session=True)",
        "import os, signal\nif not os.fork():\n    os.setsid()\n    os.kill(os.getpid(), signal.SIGSTOP)",
        "import os\nif not os.fork():\n    os.setsid()\n    os.fork() and os._exit(0)\n    while True: pass",
    ],
    ids=["a session", "stopped", "a daemon"],
)
def test_who_keeps_the_pipes_open_holds_up_nobody(site: Path, source: str) -> None:
    package(site, "torch", source)
    host = machine(site)
    started = time.monotonic()
    assert probe(host, "imports.py", ("torch",), 60.0).document is not None
    assert time.monotonic() - started < 30
    host.close()
    assert processes_with(str(site)) == []


def test_a_pipe_in_place_of_the_answer_is_not_waited_for(site: Path) -> None:
    package(site, "torch", "import os\nos.mkfifo(os.environ['NPUDOCTOR_PROBE'])\nos._exit(0)")
    host = machine(site)
    probed = probe(host, "imports.py", ("torch",), 60.0)
    host.close()
    assert probed.document is None and probed.ending == "Python exited early with status 0"


def test_seconds_and_memory_of_a_slow_one(site: Path) -> None:
    words: dict[str, object] = {"seconds": 61.2, "bytes": 3 << 30, "versions": {"torch": "2.13.0"}}
    told = asked(framework_imports, lambda argv: words, "torch")
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("framework-imports.slow", Severity.WARNING)
    assert finding.message == "import torch took 61 s, more than 60 s"
    assert (told.facts["seconds"], told.facts["bytes"]) == ({"torch": 61.2}, {"torch": 3 << 30})


def test_one_that_prints_for_ever_after_the_end(site: Path) -> None:
    started = time.monotonic()
    told = imported(
        site,
        "import os\nif not os.fork():\n    os.setsid()\n    while True:\n        os.write(1, b'x' * 4096)",
    )
    assert told.codes == []
    assert time.monotonic() - started < 30


def test_an_answer_of_the_past_is_not_taken_back(site: Path) -> None:
    """A child that fails while the probe has answered, and waits for it."""
    fails = "while os.getppid() != 1 and not os.path.exists(mark): time.sleep(0.01)"
    source = (
        "import atexit, os, time\nmark = os.environ['TMPDIR'] + '/mark'\n"
        f"pid = os.fork()\nif not pid:\n    {fails}\n    raise RuntimeError('of the child')\n"
        "atexit.register(lambda: (open(mark, 'w').close(), os.waitpid(pid, 0)))"
    )
    told = imported(site, source)
    assert (told.status, told.codes) == (Status.OK, [])


def test_a_file_that_is_named_from_an_unknown_folder(site: Path) -> None:
    """Code that was compiled elsewhere, and an error about a file of the working directory."""
    code = "compile('1 / 0', 'torch/_config.py', 'exec')"
    (finding,) = imported(site, "exec(compile('1 / 0', 'torch/__init__.py', 'exec'))").findings
    assert f"ZeroDivisionError: division by zero (in {site}/torch/__init__.py:1)" in finding.message
    package(site, "mindspore", f"exec({code})")
    package(site, "paddlepaddle", "open('gone.yaml')", module="paddle")
    host = machine(site)
    told = ask(framework_imports, host)
    host.close()
    assert told.status is Status.PROBLEM
    messages = " ".join(finding.message for finding in told.findings)
    assert "ZeroDivisionError: division by zero (in torch/_config.py:1)" in messages
    assert "gone.yaml cannot be used" in messages


def test_nothing_is_written_where_the_job_is_started(site: Path, tmp_path: Path) -> None:
    """Modules are found there, as by the job."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "job" / "mine.py").write_text("word = 'mine'\n")
    source = (
        "import mine, os, tempfile\nassert mine.word == 'mine'\n"
        "os.mkdir('rank_0')\nopen('kernel_meta', 'w')\n"
        f"open({str(tmp_path / 'private')!r}, 'w').write(os.getcwd())\n"
        "tempfile.mkstemp()\nopen(os.environ['XDG_CACHE_HOME'] + '/x', 'w')\n"
        "assert os.path.isdir(os.environ['TRITON_CACHE_DIR'])"
    )
    told = imported(site, source)
    assert (told.status, told.codes) == (Status.OK, [])
    assert os.listdir(tmp_path / "job") == ["mine.py"]
    assert os.listdir(home) == []
    assert sorted(os.listdir(site)) == ["torch", "torch-2.13.0.dist-info"]
    assert os.listdir(site / "torch") == ["__init__.py"]
    (folder,) = (
        part for part in (tmp_path / "private").read_text().split("/") if part.startswith("npudoctor-")
    )
    assert folder not in os.listdir("/tmp")


@pytest.mark.parametrize("variables", [{}, {"GLOG_log_dir": "/var/log/job"}])
def test_logs_lie_elsewhere_only_where_the_job_writes_some(site: Path, variables: dict[str, str]) -> None:
    """Paddle 3.0.0 dies or hangs at its end of the variable alone."""
    wanted = "os.environ['TMPDIR']" if variables else "None"
    source = f"import os\nassert os.environ.get('GLOG_log_dir') == {wanted}"
    assert imported(site, source, **variables).codes == []


def test_a_safe_path_is_kept(site: Path, tmp_path: Path) -> None:
    (tmp_path / "job" / "mine.py").write_text("")
    told = imported(site, "import mine", PYTHONSAFEPATH="1")
    expected = ["framework-imports.failed"] if sys.version_info >= (3, 11) else []
    assert told.codes == expected


def test_never_in_our_process(site: Path) -> None:
    imported(site, "")
    assert "torch" not in sys.modules


def test_imports_that_end_in_the_same_error_are_told_together(site: Path) -> None:
    package(site, "torch", "raise RuntimeError('no CANN')")
    package(site, "torchvision", "import torch")
    package(site, "mindspore", "raise ImportError('numpy')")
    host = machine(site)
    told = ask(framework_imports, host)
    host.close()
    assert [finding.message for finding in told.findings] == [
        f"import torch, torchvision fails: RuntimeError: no CANN (in {site}/torch/__init__.py:2)",
        f"import mindspore fails: ImportError: numpy (in {site}/mindspore/__init__.py:2)",
    ]


def test_of_a_chain_of_errors_each_is_told(site: Path) -> None:
    raising = "raise RuntimeError('x') from e"
    lines = f"try:\n    raise ImportError('libhccl.so')\nexcept ImportError as e:\n    {raising}"
    (finding,) = imported(site, lines).findings
    assert finding.evidence[0] == "ImportError: libhccl.so"
    assert "RuntimeError: x" in finding.evidence


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone is careful")
@pytest.mark.parametrize("whose", ["package", "site", "working directory", "library", "writable"])
def test_root_imports_nothing_that_others_could_have_written(site: Path, whose: str) -> None:
    package(site, "torch", "open('/proc/self/comm')")
    variables = {}
    if whose == "package":
        os.chown(site / "torch" / "__init__.py", 1234, 1234)
    elif whose == "site":
        os.chown(site, 1234, 1234)
    elif whose == "working directory":
        os.chown(Path.cwd(), 1234, 1234)
    elif whose == "writable":
        (site / "torch").chmod(0o777)
    else:
        (site.parent / "lib").mkdir()
        os.chown(site.parent / "lib", 1234, 1234)
        variables["LD_LIBRARY_PATH"] = str(site.parent / "lib")
    host = machine(site, variables=variables)
    with pytest.raises(CannotTell, match="not run as root, because other users may have written it"):
        probe(host, "imports.py", ("torch",), 60.0)
    told = ask(framework_imports, host)
    host.close()
    assert told.status is Status.UNKNOWN and not told.advisory


SYSTEM = "/usr/bin/python3"  # which an ordinary user may start


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(SYSTEM), reason="as root, with a system's Python")
def test_an_ordinary_user_imports_what_is_his(site: Path) -> None:
    """In a child of another uid, with packages that belong to that one."""
    probe(machine(site), "imports.py", ("json",), 60.0)  # so that the child has loaded all that it needs
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "site")
        package(own, "torch", "import os; assert os.geteuid() == 1234")
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, 1234, 1234)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            _as_user(own, folder, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
    assert said == "{'torch': '2.13.0'}"


def _as_user(own: Path, folder: str, writing: int) -> NoReturn:
    try:
        os.chdir(folder)
        os.setgroups([])
        os.setgid(1234)
        os.setuid(1234)
        probed = probe(machine(own, python=SYSTEM), "imports.py", ("torch",), 60.0)
        said = str(probed.document["versions"]) if probed.document else f"{probed.ending} {probed.output}"
    except BaseException as error:
        said = repr(error)
    os.write(writing, said.encode())
    os._exit(0)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way in which a probe ends."""
    yield asked(check, ends(ended="exited"))
    yield asked(check, lambda argv: {"seconds": 90.0, "bytes": 1, "versions": {"torch": "2"}}, "torch")
    yield asked(check, ends(ended="timeout", seconds=120.0), "torch")
    for status in (0, 1, -11):
        yield asked(check, ends(ended="exited", status=status, stderr="ImportError: libx.so"), "torch")
    yield asked(check, ends(ended="not-started", stderr="[Errno 8] ENOEXEC: /bin/x"), "torch")
    yield asked(check, ends(ended="exited"), "torch", until=time.monotonic())
    well: dict[str, object] = {"versions": {}, "seconds": 1.0, "bytes": 1}
    yield asked(check, each(died(6), well), "torch")
    yield dies_too_late(check)
