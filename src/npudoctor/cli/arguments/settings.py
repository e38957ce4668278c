"""The settings of a command that asks no check, and the language in which it answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from npudoctor.cli.caller import Caller
from npudoctor.cli.config import Config, load_config
from npudoctor.cli.terminal import output
from npudoctor.core.messages import _, activate, language_of
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.users.identity import current_identity

KNOWLEDGE = "/etc/npudoctor/knowledge.d"  # the rows of a site


def knowledge_directory(variables: Mapping[str, str]) -> str:
    """Where this site keeps its rows; "" for nowhere."""
    return variables.get("NPUDOCTOR_KNOWLEDGE_DIR", KNOWLEDGE)


def load_settings(flags: Mapping[str, object], caller: Caller) -> Config:
    """The settings of a command that asks nothing; without a flag for the format it writes text."""
    output.redirect_stdout()
    with closing(LocalDisk()) as disk:
        config = load_config(flags, caller.variables, Files(disk), current_identity().home)
    speak_and_warn(config, config["format"] if "format" in flags else "text", caller)
    return config


def speak_and_warn(config: Config, format: str, caller: Caller) -> None:
    """Speak the language of the result (--lang, for text also what is configured, else LANG; JSON: English),
    and say in it what is odd about the settings."""
    language = caller.language
    if language is None:
        language = "en" if format == "json" else config["lang"] or language_of(caller.variables)
    activate(language)
    for warning in config.warnings:
        output.complain(_("warning: {text}", text=warning))
