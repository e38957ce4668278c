"""The options that commands share, as types. Their help is translated when this module is imported."""

from __future__ import annotations

from typing import Annotated, Any, List, Optional  # noqa: UP035

import typer

from npudoctor.core.messages import _


def _value(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help, show_default=False)


def _switch(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, show_default=False)


# Optional and List, as typer evaluates hints on Python 3.9 too. Choices and numbers are judged by
# npudoctor.cli.settings.keys, which judges files and variables too, and so says the same everywhere.
Texts = Optional[List[str]]  # noqa: UP006
Text = Optional[str]

_NAMES = _("What to ask; everything when left out.")
Names = Annotated[Texts, typer.Argument(metavar="[ID|GROUP|TAG|CODE]...", help=_NAMES, show_default=False)]
Format = Annotated[Text, _value("--format", "text|json", _("For people or for machines; default text."))]
Output = Annotated[
    Text, _value("--output", "FILE", _("Write the result to this file, as a whole or not at all."))
]
Scope = Annotated[
    Text,
    _value("--scope", "all|node|job", _("The machine, this shell and its job, or both; default all.")),
]
Expect = Annotated[
    Text,
    _value(
        "--expect",
        "auto|npu|gpu|none",
        _("The accelerator that must be here, beside a selection too; default auto."),
    ),
]
Profile = Annotated[
    Text,
    _value(
        "--profile",
        "full|quick|deep",
        _("All checks, only the quick ones, or all and those that run the frameworks; default full."),
    ),
]
Ignore = Annotated[
    Texts,
    _value("--ignore", "ID|CODE[=REASON]", _("Report it, but let it not decide; may be repeated.")),
]
FailOn = Annotated[
    Text,
    _value("--fail-on", "error|warning", _("The least severity that makes a node not ready; default error.")),
]
Deadline = Annotated[Text, _value("--deadline", "SECONDS", _("How long the whole run may take; default 30."))]
Timeout = Annotated[Text, _value("--timeout", "SECONDS", _("How long one check may take; default 10."))]
Python = Annotated[
    Text,
    _value("--python", "PATH", _("The interpreter that will run the job; default: python3 of PATH.")),
]
Root = Annotated[
    Text, _value("--root", "DIR", _("Judge the image in this directory instead of the running machine."))
]
Knowledge = Annotated[
    bool, _switch("--knowledge", help=_("List the compatibility tables instead, and where they are from."))
]
EnvOf = Annotated[
    Text, _value("--env-of", "PID", _("Judge the variables with which this process was started."))
]
Source = Annotated[
    Text, _value("--source", "SCRIPT", _("Judge the variables that a shell has after sourcing this."))
]
Peers = Annotated[
    Text,
    _value(
        "--peers", "ADDR,...", _("The other nodes of the job, by address or name: judge the way from them.")
    ),
]
Wait = Annotated[
    Text,
    _value("--wait", "SECONDS", _("How long a rank table that is still being written may take; default 0.")),
]
User = Annotated[Text, _value("--user", "NAME", _("Limit leftovers to what belongs to this user."))]
Job = Annotated[
    Text, _value("--job", "SLURM_JOB_ID", _("Limit leftovers to what belongs to this Slurm job."))
]
JobScope = Annotated[
    Text,
    _value("--scope", "all|node|job", _("The machine, this shell and its job, or both; default job.")),
]
JobProfile = Annotated[
    Text, _value("--profile", "full|quick", _("All checks, or only the quick ones; default quick."))
]
JobPython = Annotated[
    Text,
    _value(
        "--python", "PATH", _("The interpreter that will run the job; default: the command's, else of PATH.")
    ),
]
JobSource = Annotated[
    Text, _value("--source", "SCRIPT", _("Start the job with the variables left by sourcing this."))
]
Force = Annotated[bool, _switch("--force", help=_("Start the job all the same when it is not ready."))]
Deep = Annotated[bool, _switch("--deep", help=_("Import the frameworks and let them compute first."))]
Silent = Annotated[bool, _switch("-q", "--quiet", help=_("Say nothing but the verdict, and only a bad one."))]
Words = Annotated[
    Texts,
    typer.Argument(
        metavar="[--] COMMAND...", help=_("What to start; what follows is its own."), show_default=False
    ),
]
Lang = Annotated[
    Text,
    _value("--lang", "en|zh", _("The language of the output; default: as LANG says, JSON in English.")),
]
ConfigFile = Annotated[Text, _value("--config", "FILE", _("Read this configuration file after the others."))]
Verbose = Annotated[bool, _switch("-v", "--verbose", help=_("Show every row in full."))]
Quiet = Annotated[bool, _switch("-q", "--quiet", help=_("Show only the verdict."))]
Version = Annotated[bool, _switch("--version", help=_("Print the version."))]
