"""Reads the settings of a run: two configuration files, --config, NPUDOCTOR_* variables, flags; the last
wins."""

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

IGNORE = "ignore"
LONGEST = 86400.0  # seconds: a limit of more than a day is a typing error
LONGEST_NAME, LONGEST_LABEL = 254, 63  # characters of a host name (RFC 1035, with a final dot) and of a label


class UsageError(Exception):
    """The command line or the configuration is invalid: str() is one line for people, the exit code is 64.

    The parser of a value describes what is wrong; its caller adds where the value came from.
    """


@dataclass(frozen=True)
class ConfigKey:
    """The parser of a key, which gets the value and whether it is from a file, and the default value."""

    parse: Callable[[Any, bool], Any]
    default: Any = None


_COUNT = pattern(r"[1-9][0-9]{0,3}")


def _parse_choice(choices: Sequence[str], raw: Any, in_file: bool) -> str:
    if raw not in choices:
        raise UsageError(not_one_of(raw, choices))
    return str(raw)


def _parse_number(raw: Any, in_file: bool) -> float:
    """The number; NaN when it is none, also for a string in a file, where TOML has numbers."""
    try:
        # float(True) would be 1.0, and a TOML file has numbers of its own: "30" in it is a mistake.
        if isinstance(raw, bool) or (in_file and isinstance(raw, str)):
            raise ValueError
        return float(raw)
    # OverflowError: an integer of TOML may have any number of digits.
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _parse_seconds(raw: Any, in_file: bool) -> float:
    value = _parse_number(raw, in_file)
    if not 0 < value <= LONGEST:
        raise UsageError(
            _("{value!r} is not a number of seconds above 0 and up to {most:.0f}", value=raw, most=LONGEST)
        )
    return value


def _parse_wait(raw: Any, in_file: bool) -> float:
    value = _parse_number(raw, in_file)
    if not 0 <= value <= LONGEST:
        raise UsageError(
            _("{value!r} is not a number of seconds from 0 to {most:.0f}", value=raw, most=LONGEST)
        )
    return value


def _parse_addresses(raw: Any, in_file: bool) -> tuple[str, ...]:
    """The addresses and host names, each once; they are not resolved."""
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
    """Whether a text is a host name: RFC 1123 and underscores, which some sites use; not 10.0.0.300."""
    labels = text.removesuffix(".").split(".")
    return (
        len(text) <= LONGEST_NAME
        and text.isascii()
        and not labels[-1].isdecimal()
        and all(
            0 < len(label) <= LONGEST_LABEL
            # A label has letters, digits and hyphens, and neither begins nor ends with a hyphen.
            and label.replace("-", "").replace("_", "").isalnum()
            and label[0] + label[-1] == (label[0] + label[-1]).strip("-")
            for label in labels
        )
    )


def _parse_path(raw: Any, in_file: bool) -> str:
    """A path; in a file it must be absolute."""
    # A path with a NUL byte makes every call of os raise ValueError.
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise UsageError(_("{value!r} is not a path", value=raw))
    if in_file and not raw.startswith("/"):
        raise UsageError(_("{value!r} is not an absolute path", value=raw))
    return raw


def _parse_language(raw: Any, in_file: bool) -> str:
    """en or zh; NPUDOCTOR_LANG may have the form of LANG, as zh_CN.UTF-8."""
    short = raw[:2].lower() if isinstance(raw, str) and raw[2:3] in ("", "_", "-", ".") else raw
    return _parse_choice(("en", "zh"), short if short in ("en", "zh") else raw, in_file)


def _parse_ignored(raw: Any, in_file: bool) -> dict[str, Optional[str]]:
    """By ignored id or code, its reason (None without one), from "ID=REASON" texts or from a table."""
    if isinstance(raw, Mapping):
        if not all(isinstance(reason, str) for reason in raw.values()):
            raise UsageError(_("each reason must be a string"))
        return {name: reason or None for name, reason in raw.items()}
    items = [item for item in raw.split(",") if item.strip()] if isinstance(raw, str) and not in_file else raw
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise UsageError(_('{value!r} is not a list of "ID" or "ID=REASON"', value=raw))
    pairs = [item.partition("=") for item in items]
    return {name.strip(): reason.strip() or None for name, _equal, reason in pairs}


def _parse_expectation(raw: Any, in_file: bool) -> str:
    """auto, npu, gpu or none; npu=8 and gpu=8 for a number of devices."""
    kind, equal, count = raw.partition("=") if isinstance(raw, str) else ("", "", "")
    is_known = kind in (("npu", "gpu") if equal else ("auto", "npu", "gpu", "none"))
    if not is_known or (equal and not _COUNT.fullmatch(count)):
        raise UsageError(not_one_of(raw, ("auto", "npu", "gpu", "none", "npu=8", "gpu=8")))
    return str(raw)


# The schema of the report lists these values, too.
SCOPES = ("all", "node", "job")
PROFILES = ("full", "quick", "deep")

KEYS: dict[str, ConfigKey] = {
    "expect": ConfigKey(_parse_expectation, "auto"),
    "scope": ConfigKey(partial(_parse_choice, SCOPES), "all"),
    "profile": ConfigKey(partial(_parse_choice, PROFILES), "full"),
    "fail_on": ConfigKey(partial(_parse_choice, ("error", "warning")), "error"),
    "deadline": ConfigKey(_parse_seconds, 30.0),
    "timeout": ConfigKey(_parse_seconds, 10.0),
    "wait": ConfigKey(_parse_wait, 0.0),
    "peers": ConfigKey(_parse_addresses, ()),
    "python": ConfigKey(_parse_path),
    IGNORE: ConfigKey(_parse_ignored),
    "lang": ConfigKey(_parse_language),
    "format": ConfigKey(partial(_parse_choice, ("text", "json")), "text"),
}


SYSTEM_FILE = "/etc/npudoctor/config.toml"
PREFIX = "NPUDOCTOR_"
LARGEST = 1 << 20  # bytes of a configuration file
# Variables that are not keys: the configuration file, and the directories of drop-ins and of site rows.
OTHER_VARIABLES = ("NPUDOCTOR_CONFIG", "NPUDOCTOR_CHECKS_DIR", "NPUDOCTOR_KNOWLEDGE_DIR")


def is_usage_error(error: Exception) -> bool:
    """Whether an exception is click's usage error: typer exports no class, and bundles click since 0.26."""
    return hasattr(error, "format_message")


@dataclass(frozen=True)
class Config:
    """The settings in force. `origin`: by key and by "ignore NAME", the file, variable or flag that set
    it."""

    values: Mapping[str, Any] = field(default_factory=dict)
    ignore: Mapping[str, Optional[str]] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Any:
        """The value of a key, or its default."""
        return self.values.get(key, KEYS[key].default)


# One setting: (key, raw value, its origin as errors name it, whether it is from a file).
Setting = tuple[str, object, str, bool]


def load_config(flags: Mapping[str, object], variables: Mapping[str, str], files: Files, home: str) -> Config:
    """Read all settings. Raises UsageError with the file, variable or flag and the key when one is invalid.

    `home`: the user's home directory, for ~/.config.
    """
    warnings: list[str] = []
    values: dict[str, Any] = {}
    ignore: dict[str, Optional[str]] = {}
    origin: dict[str, str] = {}
    for key, raw, where, in_file in _read_settings(flags, variables, files, home, warnings):
        try:
            value = KEYS[key].parse(raw, in_file)
        except UsageError as invalid:
            raise UsageError(f"{where}: {invalid}") from invalid
        if key == IGNORE:
            ignore.update(value)
            origin.update({f"{IGNORE} {name}": where for name in value})
        else:
            values[key] = value
            origin[key] = where
    return Config(values, ignore, origin, tuple(warnings))


def parse_flag(key: str, value: object) -> Any:
    """The parsed value of a flag, the default when it is None; raises UsageError when it is invalid."""
    try:
        return KEYS[key].default if value is None else KEYS[key].parse(value, False)
    except UsageError as invalid:
        raise UsageError(f"--{key.replace('_', '-')}: {invalid}") from invalid


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """The end of a sentence with the names that may have been meant; "" when none is similar."""
    from npudoctor.core.suggestions import near_names  # for errors only

    # Without dashes: two short options would be similar by their dash alone.
    names = {candidate.lstrip("-").casefold(): candidate for candidate in sorted(candidates)}
    # Cut: comparing takes time quadratic in the length of what was typed.
    near = near_names(name.lstrip("-").casefold()[:LONGEST_NAME], list(names))
    return _("; did you mean {name}?", name=_(", ").join(names[word] for word in near)) if near else ""


def no_such_option(option: str, options: Iterable[str]) -> str:
    """The sentence that a command has no such option, with a similar one."""
    return _("no such option: {option}{suggestion}", option=option, suggestion=suggestion(option, options))


def not_one_of(value: object, choices: Sequence[str]) -> str:
    """The sentence that a value is not one of the choices, with a similar one."""
    text = _("{value!r} is not one of {choices}", value=value, choices=", ".join(choices))
    return text + (suggestion(value, choices) if isinstance(value, str) else "")


def _read_settings(
    flags: Mapping[str, object],
    variables: Mapping[str, str],
    files: Files,
    home: str,
    warnings: list[str],
) -> Iterator[Setting]:
    """Yield all settings, the weakest first."""
    base = variables.get("XDG_CONFIG_HOME", "")
    base = base if base.startswith("/") else os.path.join(home, ".config")
    for path in (SYSTEM_FILE, os.path.join(base, "npudoctor", "config.toml")):
        try:
            is_missing = not path.startswith("/") or files.stat(path) is None
        except CannotTell as error:  # a home directory that cannot be read must not stop the run
            warnings.append(error.reason)
            continue
        if is_missing:
            continue
        if _why_untrusted(files, path) is None:
            yield from _read_file_settings(files, path, path)
        else:  # ignored, not an error, as nobody named it: under sudo -E, HOME may be another user's
            warnings.append(_("{path} is ignored: other users could have written it", path=path))
    config_path = flags.get("config") or variables.get("NPUDOCTOR_CONFIG")
    if config_path:
        origin = "--config" if flags.get("config") else "NPUDOCTOR_CONFIG"
        path = absolute_path(str(config_path), origin)
        why = _why_untrusted(files, path)
        if why:
            raise UsageError(f"{origin}: {why}")
        yield from _read_file_settings(files, path, origin)
    for name, value in sorted(variables.items()):
        key = name[len(PREFIX) :].lower()
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if key not in KEYS:
            names = [PREFIX + key_name.upper() for key_name in KEYS]
            hint = suggestion(name, [*names, *OTHER_VARIABLES])
            warnings.append(_("unknown variable {name}{suggestion}", name=name, suggestion=hint))
        elif value:
            yield key, value, name, False
    flag_keys = (key for key in KEYS if flags.get(key) not in (None, (), []))
    yield from ((key, flags[key], f"--{key.replace('_', '-')}", False) for key in flag_keys)


def absolute_path(path: str, origin: str) -> str:
    """The absolute path, with links unresolved. Raises UsageError when it is invalid, or the working
    directory was removed. `named`: the option, for the error.
    """
    if not path or "\0" in path:
        raise UsageError(_("{option}: not a path: {path!r}", option=origin, path=path))
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError as error:
        raise UsageError(
            _("{option}: {path}: the working directory does not exist", option=origin, path=path)
        ) from error


def _why_untrusted(files: Files, path: str) -> Optional[str]:
    """Why root must not read a configuration file, whoever named it; None when it may, or for other users.

    A file that other users can modify could hide findings, and its links could lead to files that only root
    can read.
    """
    return RootTrust(files).why_not(path) if os.geteuid() == 0 else None


def _read_file_settings(files: Files, path: str, origin: str) -> Iterator[Setting]:
    location = path if origin == path else f"{origin}: {path}"
    for name, value in _read_toml(files, path, location).items():
        key = name.replace("-", "_")
        if key not in KEYS or (name != key and key != "fail_on"):
            key_names = [key.replace("_", "-") for key in KEYS]
            raise UsageError(
                f"{location}: "
                + _("unknown key {key}{suggestion}", key=name, suggestion=suggestion(name, key_names))
            )
        yield key, value, f"{location}: {name}", True


def _read_toml(files: Files, path: str, location: str) -> dict[str, Any]:
    from npudoctor.core.parsing import toml_of

    try:
        content = files.read(path, LARGEST + 1)
    except CannotTell as error:
        raise UsageError(error.reason if path in error.reason else f"{location}: {error.reason}") from error
    if content is None:
        raise UsageError(_("{path} does not exist", path=location))
    if len(content) > LARGEST:
        raise UsageError(_("{path} is larger than {most} bytes", path=location, most=LARGEST))
    try:
        return toml_of(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(_("{path} is not UTF-8", path=location)) from error
    except ValueError as error:
        raise UsageError(_("{path} is not valid TOML: {why}", path=location, why=error)) from error
