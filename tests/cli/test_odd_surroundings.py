"""What a caller, a container or a limit may do to a process before it is ours: every command still answers.

It has its own exit status then, no traceback and no crashed row.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import pytest
from tests.support.roots import python_that

import npudoctor as package

from .command import Done, Npudoctor

ROOT = str(Path(__file__).resolve().parents[2])
NPUDOCTOR = [sys.executable, "-m", "npudoctor"]
TRACEBACK = re.compile(r"Traceback|Exception ignored|this is a bug")
WEIGHTLESS = ("crashed", "timeout")
JOB = ("run", "--force", "--", "/bin/sh", "-c", "exit 7")
CHECK = ("check", "--format", "json")

# Each becomes the command: the words of sys.argv from 1 on.
MANY_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
nothing = os.open("/dev/null", os.O_RDONLY)
for _number in range(1100):
    os.set_inheritable(os.dup(nothing), True)
os.execv(sys.argv[1], sys.argv[1:])
"""
# No Python can make such an environment: entries without a name, without "=", twice, and no text.
RAW_VARIABLES = """
import ctypes
entries = [b"=x", b"NOTHING", b"TWICE=1", b"TWICE=2", b"LINES_OF=a\\nb", b"BYTES=\\xff", b"\\xff=1", b""]
entries += [name + b"=" + value for name, value in os.environb.items()]
words = [word.encode() for word in sys.argv[1:]]
array = lambda items: (ctypes.c_char_p * (len(items) + 1))(*items, None)
ctypes.CDLL(None).execve(words[0], array(words), array(entries))
"""
IGNORED = """
import signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
os.execv(sys.argv[1], sys.argv[1:])
"""
BLOCKED = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""
# Another user need not be able to go where the Python under test, or this checkout, lies: below a home of
# root's or in /tmp nothing but these is left.
STRANGER = """
mount -t tmpfs tmpfs /mnt
for kept in {kept}; do mkdir -p "/mnt$kept" && mount --bind "$kept" "/mnt$kept"; done
mount -t tmpfs -o mode=755 tmpfs /root
mount -t tmpfs -o mode=1777 tmpfs /tmp
for kept in {kept}; do mkdir -p "$kept" && mount --bind "/mnt$kept" "$kept"; done
start='import site, sys; site.addsitedir("{site}"); from npudoctor.__main__ import main; sys.exit(main())'
set -- {python} -c "$start" "${{@:4}}"
"""
PYTHONS = {
    "PYTHONINSPECT": "1", "PYTHONOPTIMIZE": "2", "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error",
    "PYTHONIOENCODING": "ascii", "PYTHONSTARTUP": "/nowhere", "PYTHONMALLOC": "debug",
}  # fmt: skip
ODD = {
    "TZ": "///", "COLUMNS": "-1", "TERM": "", "LC_ALL": "xx_YY.zz", "TMPDIR": "/nowhere", "HOME": "no/here\n",
    "PYTHONUTF8": "0", "PYTHONHASHSEED": "0",
}  # fmt: skip


def python(lines: str) -> str:
    """A shell line that becomes Python with these lines, and then the command."""
    return f"exec {shlex.quote(sys.executable)} -c 'import os, sys\n{lines}' \"$@\""


def variables(values: Mapping[str, str]) -> str:
    """A shell line that becomes the command with these variables."""
    return f'exec env {shlex.join(f"{name}={value}" for name, value in values.items())} "$@"'


def shell(npudoctor: Npudoctor, line: str, *words: str) -> Done:
    """The command with these words, behind a line of bash in which "$@" is it."""
    done = subprocess.run(
        ["bash", "-c", line, "bash", *NPUDOCTOR, *words], cwd=npudoctor.folder, stdin=subprocess.DEVNULL,
        env=npudoctor.environment({}), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"))


def well(done: Done) -> Done:
    assert not TRACEBACK.search(done.err), done.err
    assert done.status in (0, 1, 2), (done.status, done.err)
    return done


def rows(done: Done) -> dict[str, str]:
    """The status of each row of a check, none of which is one of our failures; a usual one asks none of the
    group deep."""
    asked = [row for row in json.loads(well(done).out)["results"] if row["group"] != "deep"]
    found = {row["check"]: (row["status"], row["reason"]) for row in asked}
    assert not [row for row in found.items() if row[1][0] in WEIGHTLESS], found
    return {name: status for name, (status, _reason) in found.items()}


SURROUNDINGS = {
    "standard error closed": 'exec "$@" 2>&-',
    "input and error closed": 'exec "$@" <&- 2>&-',
    "many files": python(MANY_FILES),
    "raw variables": python(RAW_VARIABLES),
    "all signals ignored": python(IGNORED),
    "all signals blocked": python(BLOCKED),
    "folder deleted": 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"',
    "umask": 'umask 777; exec "$@"',
    "few descriptors": 'ulimit -n 20; exec "$@"',
    "no file may grow": 'ulimit -f 0; exec "$@"',
    # With less, Python itself may end with a fatal error where a thread cannot be started: seen with 200,000,
    # since one waits for the trial while others go on.
    "little memory": 'ulimit -v 300000; HOME=/nonexistent exec "$@"',
    "small stack": 'ulimit -s 512; exec "$@"',
    "Python's variables": variables(PYTHONS),
    "other variables": variables(ODD),
    "nothing in the environment": 'exec env -i "$@"',
}
NAMESPACES = {
    "no /proc": "umount -l /proc",
    "no /sys": "umount -R -l /sys",
    "no /dev/null": "mount -t tmpfs tmpfs /dev",
    "read-only": "mount -o remount,bind,ro /",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Future[Done], Future[Done]]]]:
    """A check and a job in each of them, side by side: mostly they wait."""
    npudoctor = Npudoctor(tmp_path_factory.mktemp("odd"))
    npudoctor.drop_in("mine")
    inside = 'unshare -m bash -c \'{} || exit 99; exec "$@"\' bash "$@"'
    bare = {name: inside.format(line) for name, line in NAMESPACES.items()} if os.geteuid() == 0 else {}
    with ThreadPoolExecutor(4) as pool:
        yield {
            name: (pool.submit(shell, npudoctor, line, *CHECK), pool.submit(shell, npudoctor, line, *JOB))
            for name, line in {**SURROUNDINGS, **bare}.items()
        }


@pytest.mark.parametrize("name", [*SURROUNDINGS, *NAMESPACES])
def test_the_checks_and_a_job(
    runs: dict[str, tuple[Future[Done], Future[Done]]], lack: Callable[[str], None], name: str
) -> None:
    if name not in runs:
        lack("needs root")
    checked, job = (run.result() for run in runs[name])
    statuses = rows(checked)
    assert len(statuses) > 40
    assert statuses.get("mine", "not asked for") in ("ok", "not asked for")
    assert (job.status, TRACEBACK.search(job.err)) == (7, None), job.err


def stranger(npudoctor: Npudoctor, limit: str, *words: str) -> Done:
    """Run by a uid without a name, with an empty environment; nobody else's, whose processes would count."""
    uid = 500_000 + os.getpid()
    hidden = [path for path in (ROOT, sys.prefix, sys.base_prefix) if path.startswith(("/root/", "/tmp/"))]
    filled = STRANGER.format(
        kept=shlex.join(sorted(set(hidden))), site=sysconfig.get_path("purelib"),
        python=f"{sys.base_prefix}/bin/python{sysconfig.get_python_version()}",
    )  # fmt: skip
    start = f"cd /; exec {limit} setpriv --reuid {uid} --regid {uid} --clear-groups env -i PATH=$PATH"
    inside = shlex.quote(f'{filled}\n{start} "$@"')
    return shell(npudoctor, f'unshare -m bash -c {inside} bash "$@"', *words)


@pytest.mark.needs_root
def test_a_user_without_a_name_and_without_home(npudoctor: Npudoctor) -> None:
    assert rows(stranger(npudoctor, "", "check", "--format", "json"))


@pytest.mark.needs_root
def test_no_process_and_no_thread_can_be_started(npudoctor: Npudoctor) -> None:
    done = stranger(npudoctor, "prlimit --nproc=0", "check", "--format", "json")
    told = rows(done)
    assert told["trial-processes"] == "problem"
    assert {status for name, status in told.items() if not name.startswith("trial-")} == {"unknown"}
    job = stranger(npudoctor, "prlimit --nproc=0", "run", "--", "true")
    assert (job.status, TRACEBACK.search(job.err)) == (125, None), job.err
    assert "could not be started" in job.err


CLOSED = ("2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-")


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *((("history",), closed) for closed in CLOSED),
        *((("fix", "cache-server", "--yes"), closed) for closed in CLOSED),
        *((words, closed) for words in (("undo",), ("show", "cache-server")) for closed in CLOSED[2:]),
    ],
)
def test_closed_streams_end_no_command_early(
    npudoctor: Npudoctor, closed: str, words: tuple[str, ...]
) -> None:
    done = shell(npudoctor, f'exec "$@" {closed}', *words)
    # Without standard output the result could not be written, which is said by the status alone.
    assert (done.status == 74) is (">&- 2" in closed and "<&- 2" not in closed), done.status
    assert done.status in (0, 1, 2, 74)


@pytest.mark.parametrize("level", ["1", "2"])
def test_a_manual_is_there_without_docstrings(npudoctor: Npudoctor, level: str) -> None:
    usual = npudoctor("show", "cache-server")
    assert npudoctor("show", "cache-server", PYTHONOPTIMIZE=level) == usual
    assert usual.status == 0


def test_the_interpreter_stays_closed(npudoctor: Npudoctor) -> None:
    usual = npudoctor("check", "hostname", "--format", "json")
    done = npudoctor("check", "hostname", "--format", "json", PYTHONINSPECT="1")
    assert (done.status, done.err) == (usual.status, usual.err)


def test_a_program_that_fails_fails_where_the_caller_ignores_its_children(
    npudoctor: Npudoctor, trusted: Path
) -> None:
    fake = python_that(trusted, "import posix; posix._exit(3)")
    words = ("check", "interpreter", "--python", str(fake), "--format", "json")
    usual = shell(npudoctor, 'exec "$@"', *words)
    done = shell(npudoctor, python(IGNORED), *words)
    assert rows(done) == rows(usual)
    assert rows(usual)["interpreter"] == "problem"


OURS = os.path.dirname(package.__file__)
# The moments of one lie between those of the others, as all have one handler: every 16 ms there is one.
FIRST = {signal.SIGINT: 0.01, signal.SIGTERM: 0.026, signal.SIGHUP: 0.042}
ENDING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_at_any_moment_ends_it_without_a_traceback_of_ours(
    npudoctor: Npudoctor, number: signal.Signals
) -> None:
    """Until our first line runs, Python answers SIGINT itself: what it says then has no frame of ours."""
    moment, reached = FIRST[number], False
    while moment < 0.25 or not reached:
        running = npudoctor.start("check", "--format", "json")
        time.sleep(moment)
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
        said, moment = err.decode(), moment + 0.048
        if number == signal.SIGINT and "KeyboardInterrupt" in said and f"{OURS}{os.sep}" not in said:
            continue
        assert not TRACEBACK.search(said), said
        expected = (ENDING[number], -number, *((0, 1, 2) if out else ()))  # it may have ended before
        assert running.returncode in expected, (moment, running.returncode, said)
        reached |= running.returncode == ENDING[number]


LOST = """
import os, signal, time, weakref
from npudoctor.cli.terminal import signals
signals.install_handlers()
class Thing: pass
thing = Thing()
kept = weakref.ref(thing, lambda _gone: os.kill(os.getpid(), signal.SIGTERM))
try:
    del thing
    time.sleep(5)
    print("lost")
except signals.StoppedBySignal as stopped:
    print(stopped.status)
"""


def test_a_signal_that_arrives_in_a_callback_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("143\n", "")
