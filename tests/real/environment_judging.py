"""What is true of an environment, what npudoctor says of it, and what becomes of it by the lines it shows."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import mindspore_env, staged
from .environment_bases import Copy
from .environment_case import Case

SCRIPT = Path(__file__).with_name("environment_truth.py")
TRUTH_SECONDS = 900  # without byte code, on a machine that has other work, it takes minutes
FATAL = (
    "PYTHONHOME",
    "PYTHONPLATLIBDIR",
    "PYTHONEXECUTABLE",
    "PYTHONUTF8",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
    "PYTHONIOENCODING",
)
ROUNDS = 3  # a remedy may bring to light what was hidden before it

PROGRAM = """#!{python} -S
import sys
sys.path += {sites!r}
from npudoctor.__main__ import main
sys.exit(main())
"""

Truth = Mapping[str, str]


def truth(case: Case, copy: Copy) -> Truth:
    """Each framework's own words; asked once of each content, as an import takes many seconds."""
    content = "\n".join((repr(case.base), repr(case.steps), SCRIPT.read_text(encoding="utf-8")))
    kept = mindspore_env.cache() / "bases" / "truth" / hashlib.sha256(content.encode()).hexdigest()
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(ask(case, copy)), encoding="utf-8")
    words: Truth = json.loads(kept.read_text(encoding="utf-8"))
    return words


def ask(case: Case, copy: Copy) -> Truth:
    """Import and use them now. The script lies where the job starts, as a job's own does."""
    script = copy.job / "job_of_the_user.py"
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    try:
        done = subprocess.run(
            copy.limited(copy.python, script, *case.frameworks),
            cwd=copy.job,
            env=copy.environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRUTH_SECONDS,
            check=False,
            **copy.identity(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"start": str(error)}
    finally:
        script.unlink()
    told = [line[6:] for line in done.stdout.splitlines() if line.startswith("TRUTH ")]
    words: Truth = json.loads(told[0]) if told else {"died": f"{done.returncode} {done.stderr[-200:]}"}
    return words


def works(told: Truth) -> bool:
    """Whether all of it can be used."""
    return all(words == "ok" for words in told.values())


@dataclass(frozen=True)
class Said:
    """What a user would have to act on: errors and warnings that are no echo of another finding."""

    loud: tuple[dict[str, Any], ...]
    # Checks without a result, of those that the verdict waits for.
    unknown: tuple[str, ...] = ()
    ready: str = "ready"
    # Those that it found, as the head of its report names them.
    frameworks: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[dict[str, Any], ...]:
        """Those that make it not ready."""
        return tuple(one for one in self.loud if one["severity"] == "error")

    def verdict(self, case: Case, broken: bool) -> str:
        """found, warned, undetermined, ready or missed of a broken one: `missed` where it is not ready for a
        reason that is not its own; quiet, undetermined or false of a working one."""
        if not broken:
            return "false" if self.errors else "undetermined" if self.ready == "undetermined" else "quiet"
        named = [one for one in self.loud if _names(one, case)]
        if not named:
            return self.ready if self.ready in ("ready", "undetermined") else "missed"
        return "found" if any(one["severity"] == "error" for one in named) else "warned"

    @property
    def codes(self) -> str:
        """For the table."""
        words = [*(one["code"] for one in self.loud), *(f"{check}?" for check in self.unknown)]
        return ", ".join(dict.fromkeys(words)) or "-"


def _names(finding: Mapping[str, Any], case: Case) -> bool:
    text = "\n".join((finding["message"], *finding["evidence"])).lower()
    return any(name.lower() in text for name in case.names)


def check(copy: Copy, profile: str = "full") -> Said:
    """`npudoctor check python cann`, of a job that starts there; with profile deep the imports too."""
    program = _program_for_all() if copy.user else _program(copy.folder.parent)
    command = [str(program), "check", "python", "cann"]
    command += ["deep"] if profile == "deep" else []
    command += ["--profile", profile, "--expect", "none"]
    command += ["--python", str(copy.python), "--format", "json"]
    # With which Python itself does not start: npudoctor is no better, and is told them by a script.
    fatal = {name: value for name, value in copy.variables.items() if name in FATAL}
    if fatal:
        script = copy.job.parent / "variables.sh"
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in fatal.items())
        script.write_text("".join(lines), encoding="utf-8")
        command += ["--source", str(script)]
    others = {name: value for name, value in copy.environment().items() if name not in fatal}
    done = subprocess.run(
        copy.limited(*command),
        cwd=copy.job,
        env={**others, "NPUDOCTOR_CHECKS_DIR": ""},
        capture_output=True,
        text=True,
        timeout=720,
        check=False,
        **copy.identity(),
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    findings = [one for row in report["results"] for one in row["findings"]]
    causes = [one for one in findings if one["caused_by"] is None]
    unknown = [row["check"] for row in report["results"] if row["needed"] and row["status"] == "unknown"]
    loud = tuple(one for one in causes if one["severity"] in ("warning", "error"))
    return Said(loud, tuple(unknown), report["verdict"], tuple(report["target"]["frameworks"] or ()))


def _program(folder: Path) -> Path:
    """npudoctor of this checkout where an installation would have it: an editable one imports modules that
    a job may hide, by a .pth file, and `python -m` searches the folder of the job first."""
    script, package = folder / "program" / "npudoctor", folder / "site" / "npudoctor"
    if not script.exists():
        package.mkdir(parents=True)
        for path in (*(mindspore_env.ROOT / "src" / "npudoctor").iterdir(), mindspore_env.ROOT / "checks"):
            (package / path.name).symlink_to(path)
        script.parent.mkdir()
        sites = [str(package.parent), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        script.write_text(PROGRAM.format(python=sys.executable, sites=sites), encoding="utf-8")
        script.chmod(0o755)
    return script


@functools.cache
def _program_for_all() -> Path:
    """The same where an ordinary user can start it, made once: with the system's Python, as a checkout and
    its interpreter may lie below a private home."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    script, library = folder / "npudoctor", folder / "library"
    library.mkdir()
    staged.library(library)
    script.write_text(PROGRAM.format(python=staged.PYTHON, sites=[str(library)]), encoding="utf-8")
    script.chmod(0o755)
    return script


@dataclass(frozen=True)
class Mended:
    """What became of it: the lines that were run, and how it ended."""

    lines: tuple[str, ...]
    ending: str
    truth: Truth


def mend(case: Case, copy: Copy, before: Truth, said: Said, profile: str = "full") -> Mended:
    """Do as the first error says, ask again, and so on; then import.

    A report without errors that names no framework any more is no end: the remedy took away what is needed.
    """
    lines: list[str] = []
    for _round in range(ROUNDS):
        first = (said.errors or said.loud)[0]
        shown = [line for line in (first["fix"] or {"commands": []})["commands"] if line not in lines]
        if not shown:
            return Mended(tuple(lines), "still broken" if lines else "no line", before)
        for line in shown:
            lines.append(line)
            if line.startswith(("export ", "unset ")):
                _variable(copy, line)
            elif not copy.shell(line):
                return Mended(tuple(lines), "the line fails", before)
        beside = copy.folder.with_name(f"{copy.folder.name}-new")
        if beside.exists():  # what was shown made a new environment, in which the job starts from now on
            copy.folder = beside
        said = check(copy, profile)
        if not said.errors:
            break
    after = ask(case, copy)
    harmed = any(before.get(name) == "ok" and words != "ok" for name, words in after.items())
    ending = "harmed" if harmed else "mended" if works(after) and not said.errors else "still broken"
    if ending != "harmed" and not said.errors and not set(case.distributions) <= set(said.frameworks):
        ending = "framework lost"
    return Mended(tuple(lines), ending, after)


def _variable(copy: Copy, line: str) -> None:
    """A line for the shell of the job."""
    command = f"{line}\nenv -0"
    done = subprocess.run(["sh", "-c", command], env=copy.environment(), capture_output=True, check=True)
    pairs = (pair.split("=", 1) for pair in os.fsdecode(done.stdout).split("\0") if "=" in pair)
    copy.variables = {
        name: value for name, value in pairs if name not in ("PATH", "HOME", "LANG", "PWD", "_")
    }
