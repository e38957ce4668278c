"""The settings of a run: two configuration files, --config, NPUDOCTOR_* variables, flags; the later wins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from npudoctor.cli.settings.keys import KEYS, REASONS, InvalidValue
from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files
from npudoctor.host.fs.root_trust import RootTrust

SYSTEM_FILE = "/etc/npudoctor/config.toml"
PREFIX = "NPUDOCTOR_"
LARGEST = 1 << 20  # of a configuration file, in bytes
# Variables that are no key: which file to read, and where the registry looks for drop-ins.
OTHER_VARIABLES = ("NPUDOCTOR_CONFIG", "NPUDOCTOR_CHECKS_DIR", "NPUDOCTOR_KNOWLEDGE_DIR")


class UsageError(Exception):
    """What the user asked for cannot be done as asked: one line, exit status 64."""


@dataclass(frozen=True)
class Config:
    """The settings in force. `origin` says, for each key and each ignored name, who set it."""

    values: Mapping[str, Any] = field(default_factory=dict)
    ignore: Mapping[str, Optional[str]] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Any:
        """The value of a key, or its default."""
        return self.values.get(key, KEYS[key].default)


# One layer: (key, raw value, how an error names it, whether it was written in a file).
Setting = tuple[str, object, str, bool]


def load(flags: Mapping[str, object], variables: Mapping[str, str], files: Files, home: str) -> Config:
    """Read every layer; Refused, naming the file or variable and the key, when something is wrong."""
    warnings: list[str] = []
    values: dict[str, Any] = {}
    ignore: dict[str, Optional[str]] = {}
    origin: dict[str, str] = {}
    for key, raw, where, in_file in _settings(flags, variables, files, home, warnings):
        try:
            value = KEYS[key].parse(raw, in_file)
        except InvalidValue as invalid:
            raise UsageError(f"{where}: {invalid}") from invalid
        if key == REASONS:
            ignore.update(value)
            origin.update({f"{REASONS} {name}": where for name in value})
        else:
            values[key] = value
            origin[key] = where
    return Config(values, ignore, origin, tuple(warnings))


def suggestion(name: str, known: Iterator[str] | list[str] | set[str]) -> str:
    """What may have been meant, as the end of a sentence; empty when nothing comes near."""
    import difflib  # for errors only

    # Dashes are left out, or every short option would look like every other.
    near = {candidate.lstrip("-"): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lstrip("-"), near, n=1, cutoff=0.7)
    return _("; did you mean {name}?").format(name=near[close[0]]) if close else ""


def _settings(
    flags: Mapping[str, object],
    variables: Mapping[str, str],
    files: Files,
    home: str,
    warnings: list[str],
) -> Iterator[Setting]:
    """Every setting, the weakest first."""
    for path in (SYSTEM_FILE, _user_file(variables, home)):
        if _exists(files, path, warnings) and _obeyed(files, path, warnings):
            yield from _from_file(files, path, path)
    config_path = flags.get("config") or variables.get("NPUDOCTOR_CONFIG")
    if config_path:
        named = "--config" if flags.get("config") else "NPUDOCTOR_CONFIG"
        path = absolute(str(config_path), named)
        if named == "NPUDOCTOR_CONFIG":
            _expect_obeyed(files, path, named)
        yield from _from_file(files, path, named)
    for name, value in sorted(variables.items()):
        key = name[len(PREFIX) :].lower()
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if key not in KEYS:
            names = [PREFIX + known.upper() for known in KEYS]
            near = suggestion(name, [*names, *OTHER_VARIABLES])
            text = _("unknown variable {name}{suggestion}")
            warnings.append(text.format(name=name, suggestion=near))
        elif value:
            yield key, value, name, False
    told_by_flags = (key for key in KEYS if flags.get(key) not in (None, (), []))
    yield from ((key, flags[key], f"--{key.replace('_', '-')}", False) for key in told_by_flags)


def absolute(path: str, named: str) -> str:
    """The path from "/", its links untouched; Refused where there is no working directory any more."""
    if not path or "\0" in path:
        raise UsageError(_("{option}: not a path: {path!r}").format(option=named, path=path))
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError as error:
        why = _("{option}: {path}: the working directory does not exist")
        raise UsageError(why.format(option=named, path=path)) from error


def _user_file(variables: Mapping[str, str], home: str) -> str:
    base = variables.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home, ".config")
    return os.path.join(base, "npudoctor", "config.toml")


def _exists(files: Files, path: str, warnings: list[str]) -> bool:
    """Whether a file that nobody named is there. A home that may not be looked into is no reason to stop."""
    if not path.startswith("/"):
        return False
    try:
        return files.stat(path) is not None
    except CannotTell as error:
        warnings.append(error.reason)
        return False


def _obeyed(files: Files, path: str, warnings: list[str]) -> bool:
    """Whether root may obey a file that nobody named: under sudo -E, HOME may be somebody else's."""
    if _why_not_obeyed(files, path) is None:
        return True
    warnings.append(_("{path} is ignored: other users could have written it").format(path=path))
    return False


def _expect_obeyed(files: Files, path: str, named: str) -> None:
    why = _why_not_obeyed(files, path)
    if why:
        raise UsageError(f"{named}: {why}")


def _why_not_obeyed(files: Files, path: str) -> Optional[str]:
    """Why root does not obey a file that no option named: a variable, too, may be left from another user, and
    what others may write would decide what is ignored. None for everybody else."""
    return RootTrust(files).why_not(path) if os.geteuid() == 0 else None


def _from_file(files: Files, path: str, named: str) -> Iterator[Setting]:
    at = path if named == path else f"{named}: {path}"
    for name, value in _parsed(files, path, at).items():
        key = name.replace("-", "_")
        if key not in KEYS or (name != key and key != "fail_on"):
            known = [key.replace("_", "-") for key in KEYS]
            text = _("unknown key {key}{suggestion}")
            raise UsageError(f"{at}: " + text.format(key=name, suggestion=suggestion(name, known)))
        yield key, value, f"{at}: {name}", True


def _parsed(files: Files, path: str, at: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = files.read(path, LARGEST + 1)
    except CannotTell as error:
        raise UsageError(error.reason if path in error.reason else f"{at}: {error.reason}") from error
    if content is None:
        raise UsageError(_("{path} does not exist").format(path=at))
    if len(content) > LARGEST:
        raise UsageError(_("{path} is larger than {most} bytes").format(path=at, most=LARGEST))
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(_("{path} is not UTF-8").format(path=at)) from error
    except ValueError as error:
        raise UsageError(_("{path} is not valid TOML: {why}").format(path=at, why=error)) from error
