"""What a shown line needs on a machine, and the machine after whoever reads it has typed it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement

from npudoctor.host import Host
from npudoctor.testing import Limit

from . import cann, python_env
from .machines import HOME, Machine

# What a shell or any Linux has; what is looked for in them is told below.
ALWAYS = frozenset(
    "export unset ulimit umask cd newgrp source printf rm rmdir chown chmod mkdir mv ipcrm kill sleep ps "
    "usermod sysctl ip nft iptables ip6tables mount systemctl timedatectl chronyc ls df du cat".split()
)
COMMANDS = frozenset("check fix undo env run explain list show".split())  # of npudoctor itself
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LD_PRELOAD")


def lacking(machine: Machine, host: Host, lines: Sequence[str]) -> list[str]:
    """What the lines name and the machine does not have: programs, files, processes, users, packages."""
    fetched = any(" download " in line for line in lines)
    found = []
    for line in lines:
        for words in _commands(line):
            found += [f"{' '.join(words[:4])}: {name}" for name in _lacking(machine, host, words, fetched)]
    return found


def _commands(line: str) -> Iterator[list[str]]:
    """The commands of one line, each as its words."""
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) == {";"}:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _lacking(machine: Machine, host: Host, words: list[str], fetched: bool) -> Iterator[str]:
    program, *rest = words
    if not (program in ALWAYS or program in ("npudoctor", "uv") or _executable(host, program)):
        yield program
    elif program == "npudoctor":
        yield from (word for word in rest[:1] if word not in COMMANDS)
    elif program == "export":
        yield from _of_export(machine, host, rest[0])
    elif program == "sysctl":
        key = rest[-1].partition("=")[0]
        yield from _not_there(host, [f"/proc/sys/{key.replace('.', '/')}"])
    elif program == "ip" and "dev" in rest:
        name = rest[rest.index("dev") + 1]
        yield from ([] if name in [one.name for one in machine.interfaces] else [name])
    elif program == "usermod":
        yield from (name for name in rest[1:] if f"{name}:" not in _accounts(host))
    elif program in ("kill", "ps") and machine.leaves is None:
        yield from _not_there(host, [f"/proc/{word}" for word in rest if word.isdigit()])
    elif "pip" in rest:
        yield from _of_pip(host, rest[rest.index("pip") + 1 :], fetched)
    elif program != "ipcrm" and rest[:2] != ["-m", "venv"]:  # that makes what it names
        yield from _not_there(host, _paths(program, rest))


def _executable(host: Host, program: str) -> bool:
    entry = host.files.stat(program) if program.startswith("/") else None
    return entry is not None and entry.is_file and bool(entry.permissions & 0o111)


def _accounts(host: Host) -> str:
    return "".join(f"\n{host.files.text(path)}" for path in ("/etc/passwd", "/etc/group"))


def _paths(program: str, rest: list[str]) -> Iterator[str]:
    """The paths among the words; what is written is made, if its folder is there."""
    if program in ("printf", "chmod", "mkdir"):
        return
    if program == "mv":
        rest = rest[:-1]  # what it is called later
    yield from (word for word in rest if word.startswith("/"))


def _not_there(host: Host, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not _leftover(path) and host.files.stat(path) is None]


def _leftover(path: str) -> bool:
    """Of dead cache servers: in a real folder, which is gone again when the machine was judged."""
    return bool(re.match(r"/tmp/([^/]+/){1,2}(mindspore|spilled|spill)/", path))


def _of_export(machine: Machine, host: Host, word: str) -> list[str]:
    """The paths that a variable did not name before."""
    name, _equals, value = word.partition("=")
    entries = value.split(":") if name in LISTS else [value]
    if name == "ASCEND_PROCESS_LOG_PATH":  # CANN makes it where it may
        entries = [f"{HOME}"] if value.startswith(f"{HOME}/") else entries
    before = machine.entries(name) if name in LISTS else []
    return _not_there(host, [one for one in entries if one.startswith("/") and one not in before])


def _of_pip(host: Host, rest: list[str], fetched: bool) -> Iterator[str]:
    verb = next(word for word in rest if not word.startswith("-"))
    yield from _not_there(host, [word for word in rest if word.startswith("/")])
    if "--find-links" in rest and not fetched:
        yield "--find-links"
    if verb == "uninstall":
        names = rest[rest.index(verb) + 1 :]
        yield from (name for name in names if host.interpreter.version_of(name) is None)


# What can be played through here.


def typed(machine: Machine, lines: Sequence[str]) -> Machine | None:
    """The machine after all lines, typed in the job's shell; None where they are not of that kind."""
    after = machine.copy()
    for line in lines:
        for words in _commands(line):
            if not _type(after, words):
                return None
    return after


def _type(machine: Machine, words: list[str]) -> bool:
    program, *rest = words
    if program == "export":
        name, _equals, value = rest[0].partition("=")
        machine.variables[name] = value
    elif program == "unset":
        machine.unset(*rest)
    elif program == "ulimit":
        _ulimit(machine, rest[0], rest[-1])
    elif program == "source":
        _source(machine, rest[0])
    elif "pip" in rest:
        return _pip(machine, rest[rest.index("pip") + 1 :])
    elif program == "sysctl":
        key, _equals, value = rest[-1].partition("=")
        machine.files[f"/proc/sys/{key.replace('.', '/')}"] = f"{value}\n"
    elif program in ("rm", "rmdir") and not any(map(_leftover, rest)):
        machine.remove(*(word for word in rest if word.startswith("/")))
    else:
        return False
    return True


def _ulimit(machine: Machine, flag: str, number: str) -> None:
    row = "Max address space" if flag.endswith("v") else "Max open files"
    soft = None if number == "unlimited" else int(number) << (10 if flag.endswith("v") else 0)
    machine.limits[row] = Limit(soft, machine.limits[row].hard)


def _source(machine: Machine, script: str) -> None:
    """What the script of CANN or of ATB leaves: its own folders in front of those that were there."""
    before = dict(machine.variables)
    if "/nnal/" in script:
        machine.variables.update(python_env.atb_variables(before.get("LD_LIBRARY_PATH", "")))
        return
    machine.variables.update(cann.variables(machine.era, machine.arch, before.get("PATH", "")))
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        entries = machine.variables[name].split(":") + before.get(name, "").split(":")
        machine.variables[name] = ":".join(entry for entry in dict.fromkeys(entries) if entry)


def _pip(machine: Machine, words: list[str]) -> bool:
    """What pip's metadata is then; False where files are what counts: a reinstallation, or a wheel."""
    verb, *rest = words
    named = [word for word in rest if not word.startswith("-") and "://" not in word]
    files = "--force-reinstall" in rest or any("/" in one or one.startswith("nvidia-") for one in named)
    if verb not in ("install", "uninstall") or files:
        return False
    for one in map(Requirement, named):
        _forget_the_users_own(machine, one.name)
        machine.uninstall(one.name)
        if verb == "install":
            machine.install(one.name, next(one.specifier.filter(_versions(one)), "1.0"))
    return True


def _forget_the_users_own(machine: Machine, name: str) -> None:
    """The copy that Python finds first is the one that pip replaces."""
    start = f"{HOME}/.local/lib/python{machine.era.minor}/site-packages/{name.replace('-', '_')}-"
    folders = {path[: path.index("/", len(start))] for path in machine.files if path.startswith(start)}
    machine.remove(*folders)


def _versions(wanted: Requirement) -> list[str]:
    """What an index may have: the newest of its time, and the bounds of what is asked for."""
    common = python_env.COMMON.get(wanted.name)
    bounds = [one.version for one in wanted.specifier if "*" not in one.version]
    return [*([common] if common else []), "1.26.4", *bounds]
