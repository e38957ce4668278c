"""Finds the Python that a job's command will start: through env, mpirun, conda run and plain shell scripts.

Only the words of the command and the lines of the scripts that it names are read; nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.lazy import pattern
from npudoctor.launch.program import PYTHON, CannotStart, find_program, read_shebang

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
# Programs that start the command that follows their own options.
PREFIXES = (
    *("nice", "nohup", "timeout", "setsid", "stdbuf", "time", "taskset", "numactl", "ionice", "chrt", "exec"),
    *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun", "command", "conda", "mamba", "micromamba"),
    *("uv", "poetry"),
)
CONDA = ("conda", "mamba", "micromamba")
DEEPEST = 8  # levels of commands that start one another; a script may start itself
LARGEST = 1 << 16  # bytes that are read of a script
_ASSIGNMENT = pattern(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_REFERENCE = pattern(r"\$(?:\{(\w+)\}|(\w+))")
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_FOLLOWED = ("PATH", "PYTHONPATH")  # the variables whose assignments in a script are followed


@dataclass(frozen=True)
class JobPython:
    """The Python of a job, as far as its command tells.

    `path`: the interpreter, None when unknown. `first_folder`: the directory at the front of its sys.path;
    None for the working directory, "" for none or an unknown one. `ignores_variables`: it ignores the PYTHON*
    variables (-E, -I); `no_user_site`: it ignores the user's site directory (-s, -I). `variables`: its
    environment; `changed_directory`: the script changed the working directory before.
    """

    path: Optional[str] = None
    first_folder: Optional[str] = None
    ignores_variables: bool = False
    no_user_site: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    changed_directory: bool = False

    def adapt(self, variables: Mapping[str, str]) -> dict[str, str]:
        """These variables as that Python will see them: without those it ignores, with those the script
        sets."""
        script_variables = {name: self.variables[name] for name in _FOLLOWED[1:] if name in self.variables}
        visible_variables = {**variables, **script_variables}
        if self.ignores_variables:
            visible_variables = {
                name: value for name, value in visible_variables.items() if not name.startswith("PYTHON")
            }
        elif self.changed_directory and "PYTHONPATH" in visible_variables:
            # The relative ones would be relative to a directory that is unknown.
            absolute_entries = [
                entry for entry in visible_variables["PYTHONPATH"].split(":") if entry.startswith("/")
            ]
            visible_variables["PYTHONPATH"] = ":".join(absolute_entries)
        return {**visible_variables, "PYTHONNOUSERSITE": "1"} if self.no_user_site else visible_variables


def find_job_python(command: Sequence[str], variables: Mapping[str, str], depth: int = 0) -> JobPython:
    """Find the Python that a command starts. `depth`: how many commands led to this one."""
    if not command or depth > DEEPEST:
        return JobPython(variables=variables)
    word, *rest = command
    name = os.path.basename(word)
    if name == "env":
        return _follow_env(rest, variables, depth)
    if name in PREFIXES:
        inner = _environment_variables(name, rest, variables)
        start_index = next((index for index, text in enumerate(rest) if _is_program(text, inner)), None)
        python = find_job_python(rest[start_index:], inner, depth + 1) if start_index is not None else None
        return python or _follow_path(inner, variables)
    try:
        path = find_program(word, variables)
    except CannotStart:
        return JobPython(variables=variables)
    if PYTHON.match(name):
        return _parse_python_options(os.path.abspath(path), rest, variables)
    if name in SHELLS:
        words = list(rest)
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option.startswith("--"):
                continue
            # Also as -lc: the command is the next word.
            if "c" in option:
                return _follow_lines(words[0] if words else "", variables, depth)
            # -o takes a name, as in -euo pipefail.
            if option.endswith("o") and words:
                words.pop(0)
        return _follow_lines(_read_script(words[0]) if words else "", variables, depth)
    return _follow_file(path, rest, variables, depth)


def _follow_file(path: str, rest: Sequence[str], variables: Mapping[str, str], depth: int) -> JobPython:
    """Find the Python by the first line of a script."""
    words = read_shebang(path)
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
    name = os.path.basename(words[0]) if words else ""
    if name in SHELLS:
        return _follow_lines(_read_script(path), variables, depth)
    if not PYTHON.match(name):
        return JobPython(variables=variables)
    try:
        python = os.path.abspath(find_program(words[0], variables))
    except CannotStart:
        return JobPython(variables=variables)
    # A launcher such as torchrun starts Python again with the script that is one of its arguments.
    script = next((word for word in rest if word.endswith(".py") and os.path.isfile(word)), None)
    return JobPython(python, _script_folder(script) if script else None, variables=variables)


def _follow_env(rest: Sequence[str], variables: Mapping[str, str], depth: int) -> JobPython:
    inner, changed_directory = dict(variables), False
    words = list(rest)
    while words:
        assignment = _ASSIGNMENT.match(words[0])
        if assignment:
            inner[assignment[1]] = assignment[2]
        elif words[0] in ("-u", "--unset") and len(words) > 1:
            inner.pop(words.pop(1), None)
        elif words[0] in ("-C", "--chdir") and len(words) > 1:
            changed_directory = bool(words.pop(1))
        elif words[0] in ("-i", "-", "--ignore-environment"):
            inner = {}
        elif not words[0].startswith("-"):
            break
        words.pop(0)
    python = find_job_python(words, inner, depth + 1)
    python = python if python.path is not None else _follow_path(inner, variables)
    return replace(python, first_folder="", changed_directory=True) if changed_directory else python


def _environment_variables(name: str, rest: Sequence[str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which `conda run` and `uv run` start their command; others leave them unchanged."""
    folder = None
    if name in CONDA:
        named_environments = [
            (word, value) for word, value in zip(rest, rest[1:]) if word in ("-n", "--name")
        ]
        prefixes = [value for word, value in zip(rest, rest[1:]) if word in ("-p", "--prefix")]
        folder = (
            prefixes[0]
            if prefixes
            else _find_conda_environment(named_environments[0][1], name, variables)
            if named_environments
            else None
        )
    elif name == "uv":
        folder = variables.get("UV_PROJECT_ENVIRONMENT") or ".venv"
    return _prepend_programs(folder, variables)


def _prepend_programs(folder: Optional[str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with the bin directory of an environment first in PATH, when it exists."""
    program_folder = os.path.join(os.path.abspath(folder), "bin") if folder else ""
    if not program_folder or not os.path.isdir(program_folder):
        return variables
    return {**variables, "PATH": f"{program_folder}:{variables.get('PATH', os.defpath)}"}


def _find_conda_environment(name: str, program: str, variables: Mapping[str, str]) -> Optional[str]:
    try:
        path = variables.get("CONDA_EXE") or find_program(program, variables)
    except CannotStart:
        return None
    root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    home = os.path.join(variables.get("HOME", "/"), ".conda/envs", name)
    places = [root] if name == "base" else [os.path.join(root, "envs", name), home]
    return next((place for place in places if os.path.isdir(place)), None)


def _is_program(word: str, variables: Mapping[str, str]) -> bool:
    """Whether a word is the program that a launcher starts, not one of its options or an option's value."""
    name = os.path.basename(word)
    if word.startswith("-") or not name:
        return False
    if name == "env" or name in PREFIXES or name in SHELLS or PYTHON.match(name):
        return True
    try:
        words = read_shebang(find_program(word, variables))
    except CannotStart:
        return False
    return bool(words)


def _parse_python_options(path: str, rest: Sequence[str], variables: Mapping[str, str]) -> JobPython:
    """Parse the options of Python itself, up to the script or module."""
    letters, first, words = "", None, list(rest)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word in _TAKES_VALUE and words:
            words.pop(0)
        elif not word.startswith("--"):
            flag_letters = re.split("[cmWX]", word[1:], maxsplit=1)[0]
            letters += flag_letters
            # After -c and -m the other words are arguments of the program.
            if re.search("[cm]", word[1:][len(flag_letters) : len(flag_letters) + 1]):
                words = []
                break
    if words and words[0] != "-":
        first = _script_folder(words[0])
    skips_script_folder = "I" in letters or "P" in letters
    ignores_variables = "I" in letters or "E" in letters
    return JobPython(
        path,
        "" if skips_script_folder else first,
        ignores_variables,
        "I" in letters or "s" in letters,
        variables,
    )


def _script_folder(script: str) -> str:
    """What Python puts first in sys.path for a script: the directory of the file behind links, or the
    directory itself."""
    real = os.path.realpath(script)
    return real if os.path.isdir(real) else os.path.dirname(real)


def _read_script(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(LARGEST))
    except (OSError, ValueError):
        return ""


def _follow_lines(text: str, variables: Mapping[str, str], depth: int) -> JobPython:
    """Find the Python by the lines of a shell script: assignments, cd, activations, and commands in order."""
    inner, changed_directory = dict(variables), False
    for line in re.split(r"[\n;]|&&", text.replace("\\\n", " ")):
        try:
            words = [_expand_variables(word, inner) for word in shlex.split(line, comments=True)]
        except ValueError:  # a quoted string over several lines
            continue
        changed_directory = changed_directory or words[:1] in (["cd"], ["pushd"])
        words = words[1:] if words[:1] == ["export"] else words
        command_index = next(
            (index for index, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words)
        )
        assigned, words = [word.partition("=")[::2] for word in words[:command_index]], words[command_index:]
        followed_variables = {
            name: value for name, value in assigned if name in _FOLLOWED and "$" not in value
        }
        if not words:
            inner.update(followed_variables)
        elif _parse_activation(words, inner) is not None:
            inner = dict(_prepend_programs(_parse_activation(words, inner), inner))
        elif _is_program(words[0], {**inner, **followed_variables}):
            python = find_job_python(words, {**inner, **followed_variables}, depth + 1)
            if python.path is not None:
                return (
                    replace(python, first_folder="", changed_directory=True) if changed_directory else python
                )
    python = _follow_path(inner, variables)
    return replace(python, first_folder="", changed_directory=True) if changed_directory else python


def _parse_activation(words: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
    """The directory of the environment that a line of a script activates; None for all other lines."""
    if words[0] in ("source", ".") and words[1:] and words[1].endswith("/bin/activate"):
        return os.path.dirname(os.path.dirname(words[1]))
    if list(words[:2]) in (["conda", "activate"], ["source", "activate"]) and words[2:]:
        return words[2] if "/" in words[2] else _find_conda_environment(words[2], "conda", variables)
    return None


def _follow_path(inner: Mapping[str, str], variables: Mapping[str, str]) -> JobPython:
    """The python3 on PATH, when PATH was changed on the way; else a JobPython without a path."""
    path = None
    if inner.get("PATH") != variables.get("PATH"):
        try:
            path = find_program("python3", inner)
        except CannotStart:
            path = None
    return JobPython(path, variables=inner)


def _expand_variables(word: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in a word; an unknown one stays as it is written."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return variables.get(name, "" if name in _FOLLOWED else match[0])

    return _REFERENCE.sub(value, word)
