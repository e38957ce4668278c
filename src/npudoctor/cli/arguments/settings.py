"""Loads the settings of a command that runs no check, and sets the language of its output."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from npudoctor.cli.caller import Caller
from npudoctor.cli.config import Config, load_config
from npudoctor.cli.terminal import output
from npudoctor.core.messages import _, activate, language_of
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.users.identity import current_identity

KNOWLEDGE = "/etc/npudoctor/knowledge.d"  # the site's compatibility rows


def knowledge_directory(variables: Mapping[str, str]) -> str:
    """The directory of the site's compatibility rows; "" for none."""
    return variables.get("NPUDOCTOR_KNOWLEDGE_DIR", KNOWLEDGE)


def load_settings(flags: Mapping[str, object], caller: Caller) -> Config:
    """The settings of a command that runs no check; a command without --format writes text."""
    output.redirect_stdout()
    with closing(LocalDisk()) as disk:
        config = load_config(flags, caller.variables, Files(disk), current_identity().home)
    set_language_and_warn(config, config["format"] if "format" in flags else "text", caller)
    return config


def set_language_and_warn(config: Config, format: str, caller: Caller) -> None:
    """Set the language of the output, and print the warnings about the settings in it.

    --lang comes first. Without it JSON is English; text uses the configured language, else LANG.
    """
    language = caller.language
    if language is None:
        language = "en" if format == "json" else config["lang"] or language_of(caller.variables)
    activate(language)
    for warning in config.warnings:
        output.complain(_("warning: {text}", text=warning))
