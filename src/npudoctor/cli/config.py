"""The settings of a run: two configuration files, --config, NPUDOCTOR_* variables, flags; the later wins."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.trust.trees import RootTrust
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files

REASONS = "ignore"
LONGEST = 86400.0  # a run that may take longer than a day is a mistake
LONGEST_NAME, LONGEST_LABEL = 254, 63  # of a host, with its last dot


class UsageError(Exception):
    """The command line or the configuration asks for what cannot be done: one line, exit status 64.

    What reads a value says what is wrong with it; who asked for it adds by whom it was given.
    """


@dataclass(frozen=True)
class ConfigKey:
    """How a value is read, and what holds when nobody says anything. `in_file`: it stood in a file."""

    parse: Callable[[Any, bool], Any]
    default: Any = None


_COUNT = pattern(r"[1-9][0-9]{0,3}")


def _one_of(choices: Sequence[str], raw: Any, in_file: bool) -> str:
    if raw not in choices:
        raise UsageError(not_one_of(raw, choices))
    return str(raw)


def _number(raw: Any, in_file: bool) -> float:
    """A number; text is converted unless it came from a file. NaN for anything else."""
    try:
        if isinstance(raw, bool) or (in_file and isinstance(raw, str)):
            raise ValueError
        return float(raw)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _seconds(raw: Any, in_file: bool) -> float:
    value = _number(raw, in_file)
    if not 0 < value <= LONGEST:
        raise UsageError(
            _("{value!r} is not a number of seconds above 0 and up to {most:.0f}", value=raw, most=LONGEST)
        )
    return value


def _patience(raw: Any, in_file: bool) -> float:
    value = _number(raw, in_file)
    if not 0 <= value <= LONGEST:
        raise UsageError(
            _("{value!r} is not a number of seconds from 0 to {most:.0f}", value=raw, most=LONGEST)
        )
    return value


def _addresses(raw: Any, in_file: bool) -> tuple[str, ...]:
    """Addresses and host names, each once; nobody is asked whether they exist."""
    items = raw.split(",") if isinstance(raw, str) and not in_file else raw
    if not isinstance(items, (list, tuple)) or not items or not all(isinstance(item, str) for item in items):
        raise UsageError(_("{value!r} is not a list of addresses", value=raw))
    peers = [item.strip() for item in items]
    for peer in peers:
        if not (_is_address(peer) or _is_name(peer)):
            raise UsageError(_("{value!r} is neither an address nor a host name", value=peer))
    return tuple(dict.fromkeys(peers))


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_name(text: str) -> bool:
    """By the grammar of RFC 1123, and underscores, which some sites use; 10.0.0.300 is not a name."""
    labels = text.removesuffix(".").split(".")
    return (
        len(text) <= LONGEST_NAME
        and text.isascii()
        and not labels[-1].isdecimal()
        and all(
            0 < len(label) <= LONGEST_LABEL
            and label.replace("-", "").replace("_", "").isalnum()
            and label[0] + label[-1] == (label[0] + label[-1]).strip("-")
            for label in labels
        )
    )


def _path(raw: Any, in_file: bool) -> str:
    """A path; in a file it begins at "/". In the table of keys."""
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise UsageError(_("{value!r} is not a path", value=raw))
    if in_file and not raw.startswith("/"):
        raise UsageError(_("{value!r} is not an absolute path", value=raw))
    return raw


def _language(raw: Any, in_file: bool) -> str:
    """en or zh; NPUDOCTOR_LANG may look like LANG: zh_CN.UTF-8. In the table of keys."""
    short = raw[:2].lower() if isinstance(raw, str) and raw[2:3] in ("", "_", "-", ".") else raw
    return _one_of(("en", "zh"), short if short in ("en", "zh") else raw, in_file)


def _parse_ignored(raw: Any, in_file: bool) -> dict[str, Optional[str]]:
    """Names with their reasons, from "ID=REASON" texts or from a table."""
    if isinstance(raw, Mapping):
        if not all(isinstance(reason, str) for reason in raw.values()):
            raise UsageError(_("each reason must be a string"))
        return {name: reason or None for name, reason in raw.items()}
    items = [item for item in raw.split(",") if item.strip()] if isinstance(raw, str) and not in_file else raw
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise UsageError(_('{value!r} is not a list of "ID" or "ID=REASON"', value=raw))
    pairs = [item.partition("=") for item in items]
    return {name.strip(): reason.strip() or None for name, _equal, reason in pairs}


def _expectation(raw: Any, in_file: bool) -> str:
    """auto, npu, gpu, none; npu=8 and gpu=8 for so many."""
    kind, equal, count = raw.partition("=") if isinstance(raw, str) else ("", "", "")
    known = kind in (("npu", "gpu") if equal else ("auto", "npu", "gpu", "none"))
    if not known or (equal and not _COUNT.fullmatch(count)):
        raise UsageError(not_one_of(raw, ("auto", "npu", "gpu", "none", "npu=8", "gpu=8")))
    return str(raw)


# What the schema of the report names too.
SCOPES = ("all", "node", "job")
PROFILES = ("full", "quick", "deep")

KEYS: dict[str, ConfigKey] = {
    "expect": ConfigKey(_expectation, "auto"),
    "scope": ConfigKey(partial(_one_of, SCOPES), "all"),
    "profile": ConfigKey(partial(_one_of, PROFILES), "full"),
    "fail_on": ConfigKey(partial(_one_of, ("error", "warning")), "error"),
    "deadline": ConfigKey(_seconds, 30.0),
    "timeout": ConfigKey(_seconds, 10.0),
    "wait": ConfigKey(_patience, 0.0),
    "peers": ConfigKey(_addresses, ()),
    "python": ConfigKey(_path),
    REASONS: ConfigKey(_parse_ignored),
    "lang": ConfigKey(_language),
    "format": ConfigKey(partial(_one_of, ("text", "json")), "text"),
}


SYSTEM_FILE = "/etc/npudoctor/config.toml"
PREFIX = "NPUDOCTOR_"
LARGEST = 1 << 20  # of a configuration file, in bytes
# Variables that are no key: which file to read, and where the registry looks for drop-ins.
OTHER_VARIABLES = ("NPUDOCTOR_CONFIG", "NPUDOCTOR_CHECKS_DIR", "NPUDOCTOR_KNOWLEDGE_DIR")


def is_usage_error(error: Exception) -> bool:
    """Whether click refuses a line: typer names no class for it, and has its own click from 0.26 on."""
    return hasattr(error, "format_message")


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
    """Read every layer; UsageError, naming the file or variable and the key, when something is wrong."""
    warnings: list[str] = []
    values: dict[str, Any] = {}
    ignore: dict[str, Optional[str]] = {}
    origin: dict[str, str] = {}
    for key, raw, where, in_file in _settings(flags, variables, files, home, warnings):
        try:
            value = KEYS[key].parse(raw, in_file)
        except UsageError as invalid:
            raise UsageError(f"{where}: {invalid}") from invalid
        if key == REASONS:
            ignore.update(value)
            origin.update({f"{REASONS} {name}": where for name in value})
        else:
            values[key] = value
            origin[key] = where
    return Config(values, ignore, origin, tuple(warnings))


def flag_value(key: str, value: object) -> Any:
    """A flag's value; its default when it was left out, UsageError when it is wrong."""
    try:
        return KEYS[key].default if value is None else KEYS[key].parse(value, False)
    except UsageError as invalid:
        raise UsageError(f"--{key.replace('_', '-')}: {invalid}") from invalid


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence; empty when nothing comes near."""
    from npudoctor.core.suggestions import near_names  # for errors only

    # Dashes are left out, or every short option would look like every other.
    names = {candidate.lstrip("-").casefold(): candidate for candidate in sorted(known)}
    near = near_names(name.lstrip("-").casefold()[:LONGEST_NAME], list(names))
    return _("; did you mean {name}?", name=_(", ").join(names[word] for word in near)) if near else ""


def no_such_option(option: str, known: Iterable[str]) -> str:
    """The sentence that a command has no such option, with the one that may have been meant."""
    return _("no such option: {option}{suggestion}", option=option, suggestion=suggestion(option, known))


def not_one_of(value: object, choices: Sequence[str]) -> str:
    """The sentence that a value is none of those that there are, with the one that may have been meant."""
    text = _("{value!r} is not one of {choices}", value=value, choices=", ".join(choices))
    return text + (suggestion(value, choices) if isinstance(value, str) else "")


def _settings(
    flags: Mapping[str, object],
    variables: Mapping[str, str],
    files: Files,
    home: str,
    warnings: list[str],
) -> Iterator[Setting]:
    """Every setting, the weakest first."""
    base = variables.get("XDG_CONFIG_HOME", "")
    base = base if base.startswith("/") else os.path.join(home, ".config")
    for path in (SYSTEM_FILE, os.path.join(base, "npudoctor", "config.toml")):
        try:
            missing = not path.startswith("/") or files.stat(path) is None
        except CannotTell as error:  # a home that may not be looked into is no reason to stop
            warnings.append(error.reason)
            continue
        if missing:
            continue
        if _why_not_obeyed(files, path) is None:
            yield from _from_file(files, path, path)
        else:  # nobody named it: under sudo -E, HOME may be somebody else's
            warnings.append(_("{path} is ignored: other users could have written it", path=path))
    config_path = flags.get("config") or variables.get("NPUDOCTOR_CONFIG")
    if config_path:
        named = "--config" if flags.get("config") else "NPUDOCTOR_CONFIG"
        path = absolute(str(config_path), named)
        why = _why_not_obeyed(files, path)
        if why:
            raise UsageError(f"{named}: {why}")
        yield from _from_file(files, path, named)
    for name, value in sorted(variables.items()):
        key = name[len(PREFIX) :].lower()
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if key not in KEYS:
            names = [PREFIX + known.upper() for known in KEYS]
            near = suggestion(name, [*names, *OTHER_VARIABLES])
            warnings.append(_("unknown variable {name}{suggestion}", name=name, suggestion=near))
        elif value:
            yield key, value, name, False
    told_by_flags = (key for key in KEYS if flags.get(key) not in (None, (), []))
    yield from ((key, flags[key], f"--{key.replace('_', '-')}", False) for key in told_by_flags)


def absolute(path: str, named: str) -> str:
    """The path from "/", its links untouched; UsageError when the working directory is gone."""
    if not path or "\0" in path:
        raise UsageError(_("{option}: not a path: {path!r}", option=named, path=path))
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError as error:
        raise UsageError(
            _("{option}: {path}: the working directory does not exist", option=named, path=path)
        ) from error


def _why_not_obeyed(files: Files, path: str) -> Optional[str]:
    """Why root does not obey a file, whoever named it: what others may write would decide what is ignored,
    and their links would lead to what only root may read. None for everybody else."""
    return RootTrust(files).why_not(path) if os.geteuid() == 0 else None


def _from_file(files: Files, path: str, named: str) -> Iterator[Setting]:
    at = path if named == path else f"{named}: {path}"
    for name, value in _parse(files, path, at).items():
        key = name.replace("-", "_")
        if key not in KEYS or (name != key and key != "fail_on"):
            known = [key.replace("_", "-") for key in KEYS]
            raise UsageError(
                f"{at}: " + _("unknown key {key}{suggestion}", key=name, suggestion=suggestion(name, known))
            )
        yield key, value, f"{at}: {name}", True


def _parse(files: Files, path: str, at: str) -> dict[str, Any]:
    from npudoctor.core.parsing import toml_of

    try:
        content = files.read(path, LARGEST + 1)
    except CannotTell as error:
        raise UsageError(error.reason if path in error.reason else f"{at}: {error.reason}") from error
    if content is None:
        raise UsageError(_("{path} does not exist", path=at))
    if len(content) > LARGEST:
        raise UsageError(_("{path} is larger than {most} bytes", path=at, most=LARGEST))
    try:
        return toml_of(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(_("{path} is not UTF-8", path=at)) from error
    except ValueError as error:
        raise UsageError(_("{path} is not valid TOML: {why}", path=at, why=error)) from error
