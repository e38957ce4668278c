"""Which Python a job's command will start, and how: through env, mpirun, conda run and plain shell scripts.

Read from the words of the command and the lines of the scripts that it names; nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.lazy import pattern
from npudoctor.launch.program import PYTHON, CannotStart, find_program, shebang

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
# They start what stands behind their own options.
PREFIXES = (
    *("nice", "nohup", "timeout", "setsid", "stdbuf", "time", "taskset", "numactl", "ionice", "chrt", "exec"),
    *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun", "command", "conda", "mamba", "micromamba"),
    *("uv", "poetry"),
)
CONDA = ("conda", "mamba", "micromamba")
DEEPEST = 8  # commands that start one another
LARGEST = 1 << 16  # of a script that is read
_ASSIGNMENT = pattern(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_REFERENCE = pattern(r"\$(?:\{(\w+)\}|(\w+))")
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_KEPT = ("PATH", "PYTHONPATH")  # what is followed of the variables that a script sets


@dataclass(frozen=True)
class JobPython:
    """`path`: the interpreter, None where the command does not tell. `first`: the folder that it searches
    before all others; None for the working directory, "" for none, or one that nobody can tell. `alone`: it
    reads no variable of Python (-E, -I); `no_user_site`: nor the user's folder (-s, -I). `variables`: those
    that it finds; `moved`: the script changed the working directory before."""

    path: Optional[str] = None
    first: Optional[str] = None
    alone: bool = False
    no_user_site: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False

    def adapt(self, variables: Mapping[str, str]) -> dict[str, str]:
        """These variables as that Python will see them."""
        followed = {name: self.variables[name] for name in _KEPT[1:] if name in self.variables}
        seen = {**variables, **followed}
        if self.alone:
            seen = {name: value for name, value in seen.items() if not name.startswith("PYTHON")}
        elif self.moved and "PYTHONPATH" in seen:
            absolute = [entry for entry in seen["PYTHONPATH"].split(":") if entry.startswith("/")]
            seen["PYTHONPATH"] = ":".join(absolute)
        return {**seen, "PYTHONNOUSERSITE": "1"} if self.no_user_site else seen


def job_python(command: Sequence[str], variables: Mapping[str, str], depth: int = 0) -> JobPython:
    """What the command starts, as far as it can be read."""
    if not command or depth > DEEPEST:
        return JobPython(variables=variables)
    word, *rest = command
    name = os.path.basename(word)
    if name == "env":
        return _of_env(rest, variables, depth)
    if name in PREFIXES:
        inner = _of_environment(name, rest, variables)
        behind = next((at for at, text in enumerate(rest) if _starts_something(text, inner)), None)
        python = job_python(rest[behind:], inner, depth + 1) if behind is not None else None
        return python or _of_path(inner, variables)
    try:
        path = find_program(word, variables)
    except CannotStart:
        return JobPython(variables=variables)
    if PYTHON.match(name):
        return _with_options(os.path.abspath(path), rest, variables)
    if name in SHELLS:
        words = list(rest)
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option.startswith("--"):
                continue
            if "c" in option:
                return _of_lines(words[0] if words else "", variables, depth)
            if option.endswith("o") and words:
                words.pop(0)
        return _of_lines(_text(words[0]) if words else "", variables, depth)
    return _of_file(path, rest, variables, depth)


def _of_file(path: str, rest: Sequence[str], variables: Mapping[str, str], depth: int) -> JobPython:
    """By the first line of a script."""
    words = shebang(path)
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
    name = os.path.basename(words[0]) if words else ""
    if name in SHELLS:
        return _of_lines(_text(path), variables, depth)
    if not PYTHON.match(name):
        return JobPython(variables=variables)
    try:
        python = os.path.abspath(find_program(words[0], variables))
    except CannotStart:
        return JobPython(variables=variables)
    # A launcher, such as torchrun, starts the Python again with the script that it is given.
    script = next((word for word in rest if word.endswith(".py") and os.path.isfile(word)), None)
    return JobPython(python, _folder(script) if script else None, variables=variables)


def _of_env(rest: Sequence[str], variables: Mapping[str, str], depth: int) -> JobPython:
    inner, moved = dict(variables), False
    words = list(rest)
    while words:
        assignment = _ASSIGNMENT.match(words[0])
        if assignment:
            inner[assignment[1]] = assignment[2]
        elif words[0] in ("-u", "--unset") and len(words) > 1:
            inner.pop(words.pop(1), None)
        elif words[0] in ("-C", "--chdir") and len(words) > 1:
            moved = bool(words.pop(1))
        elif words[0] in ("-i", "-", "--ignore-environment"):
            inner = {}
        elif not words[0].startswith("-"):
            break
        words.pop(0)
    python = job_python(words, inner, depth + 1)
    python = python if python.path is not None else _of_path(inner, variables)
    return replace(python, first="", moved=True) if moved else python


def _of_environment(name: str, rest: Sequence[str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which `conda run` and `uv run` start what they are told to."""
    folder = None
    if name in CONDA:
        named = [(word, value) for word, value in zip(rest, rest[1:]) if word in ("-n", "--name")]
        prefix = [value for word, value in zip(rest, rest[1:]) if word in ("-p", "--prefix")]
        folder = prefix[0] if prefix else _conda(named[0][1], name, variables) if named else None
    elif name == "uv":
        folder = variables.get("UV_PROJECT_ENVIRONMENT") or ".venv"
    return _before(folder, variables)


def _before(folder: Optional[str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with an environment's programs before all others, where it is there."""
    place = os.path.join(os.path.abspath(folder), "bin") if folder else ""
    if not place or not os.path.isdir(place):
        return variables
    return {**variables, "PATH": f"{place}:{variables.get('PATH', os.defpath)}"}


def _conda(name: str, program: str, variables: Mapping[str, str]) -> Optional[str]:
    try:
        path = variables.get("CONDA_EXE") or find_program(program, variables)
    except CannotStart:
        return None
    root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    home = os.path.join(variables.get("HOME", "/"), ".conda/envs", name)
    places = [root] if name == "base" else [os.path.join(root, "envs", name), home]
    return next((place for place in places if os.path.isdir(place)), None)


def _starts_something(word: str, variables: Mapping[str, str]) -> bool:
    """Whether a word is what a launcher starts, and not an option of its own or the value of one."""
    name = os.path.basename(word)
    if word.startswith("-") or not name:
        return False
    if name == "env" or name in PREFIXES or name in SHELLS or PYTHON.match(name):
        return True
    try:
        words = shebang(find_program(word, variables))
    except CannotStart:
        return False
    return bool(words)


def _with_options(path: str, rest: Sequence[str], variables: Mapping[str, str]) -> JobPython:
    """By the options of Python itself."""
    letters, first, words = "", None, list(rest)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word in _TAKES_VALUE and words:
            words.pop(0)
        elif not word.startswith("--"):
            before = re.split("[cmWX]", word[1:], maxsplit=1)[0]
            letters += before
            if re.search("[cm]", word[1:][len(before) : len(before) + 1]):
                words = []
                break
    if words and words[0] != "-":
        first = _folder(words[0])
    safe = "I" in letters or "P" in letters
    alone = "I" in letters or "E" in letters
    return JobPython(path, "" if safe else first, alone, "I" in letters or "s" in letters, variables)


def _folder(script: str) -> str:
    """The folder of a script, as Python takes it: behind links; a folder or an archive is itself searched."""
    real = os.path.realpath(script)
    return real if os.path.isdir(real) else os.path.dirname(real)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(LARGEST))
    except (OSError, ValueError):
        return ""


def _of_lines(text: str, variables: Mapping[str, str], depth: int) -> JobPython:
    """By the lines of a shell script, one after the other: what it sets, where it goes, what it starts."""
    inner, moved = dict(variables), False
    for line in re.split(r"[\n;]|&&", text.replace("\\\n", " ")):
        try:
            words = [_expand_variables(word, inner) for word in shlex.split(line, comments=True)]
        except ValueError:  # a quotation over several lines
            continue
        moved = moved or words[:1] in (["cd"], ["pushd"])
        words = words[1:] if words[:1] == ["export"] else words
        behind = next((at for at, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
        assigned, words = [word.partition("=")[::2] for word in words[:behind]], words[behind:]
        followed = {name: value for name, value in assigned if name in _KEPT and "$" not in value}
        if not words:
            inner.update(followed)
        elif _parse_activation(words, inner) is not None:
            inner = dict(_before(_parse_activation(words, inner), inner))
        elif _starts_something(words[0], {**inner, **followed}):
            python = job_python(words, {**inner, **followed}, depth + 1)
            if python.path is not None:
                return replace(python, first="", moved=True) if moved else python
    python = _of_path(inner, variables)
    return replace(python, first="", moved=True) if moved else python


def _parse_activation(words: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
    """The environment that a line of a script activates; None for all other lines."""
    if words[0] in ("source", ".") and words[1:] and words[1].endswith("/bin/activate"):
        return os.path.dirname(os.path.dirname(words[1]))
    if list(words[:2]) in (["conda", "activate"], ["source", "activate"]) and words[2:]:
        return words[2] if "/" in words[2] else _conda(words[2], "conda", variables)
    return None


def _of_path(inner: Mapping[str, str], variables: Mapping[str, str]) -> JobPython:
    """python3 of PATH, where that is another PATH by now."""
    path = None
    if inner.get("PATH") != variables.get("PATH"):
        try:
            path = find_program("python3", inner)
        except CannotStart:
            path = None
    return JobPython(path, variables=inner)


def _expand_variables(word: str, variables: Mapping[str, str]) -> str:
    """A word with the variables that are set; what cannot be told keeps its sign."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return variables.get(name, "" if name in _KEPT else match[0])

    return _REFERENCE.sub(value, word)
