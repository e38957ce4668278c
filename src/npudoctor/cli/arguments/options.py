"""The options that commands share, as annotated types. Importing this module translates their help."""

from __future__ import annotations

from typing import Annotated, Any, List, Optional  # noqa: UP035

import typer

from npudoctor.core.messages import _


def value(name: str, metavar: str, help: str, *short: str) -> Any:
    """Declare an option with a value; `short`: its short name, if any."""
    return typer.Option(*short, name, metavar=metavar, help=help, show_default=False)


def switch(*names: str, help: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(*names, help=help, show_default=False)


def argument(metavar: str, help: str) -> Any:
    """Declare a positional argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


# Optional and List, as typer evaluates the hints on Python 3.9, too. Choices and numbers are plain text here:
# npudoctor.cli.config validates them, with the same errors as in files and variables.
Texts = Optional[List[str]]  # noqa: UP006
Text = Optional[str]

Names = Annotated[Texts, argument("[ID|GROUP|TAG|CODE]...", _("What to check; default: everything."))]
Format = Annotated[
    Text, value("--format", "text|json", _("Output format, for people or for programs; default text."))
]
Output = Annotated[
    Text,
    value(
        "--output", "FILE", _("Write the result to this file, completely or not at all; FILE.json is JSON.")
    ),
]
Scope = Annotated[
    Text,
    value(
        "--scope",
        "all|node|job",
        _("Scope: node is the machine, job is this shell and its job, all is both; default all."),
    ),
]
Expect = Annotated[
    Text,
    value(
        "--expect",
        "auto|npu[=N]|gpu[=N]|none",
        _("Accelerator this node must have; checked even when checks are selected; default auto."),
    ),
]
Profile = Annotated[
    Text,
    value(
        "--profile",
        "full|quick|deep",
        _(
            "Profile: full runs all checks, quick skips those that start a vendor tool such as npu-smi, "
            "deep also runs the frameworks; default full."
        ),
    ),
]
Ignore = Annotated[
    Texts,
    value(
        "--ignore",
        "ID|CODE[=REASON]",
        _("Report this check or code without counting it in the verdict; may be repeated."),
    ),
]
FailOn = Annotated[
    Text,
    value("--fail-on", "error|warning", _("Lowest severity that makes the node not ready; default error.")),
]
Deadline = Annotated[
    Text, value("--deadline", "SECONDS", _("Seconds that the whole run may take; default 30."))
]
Timeout = Annotated[Text, value("--timeout", "SECONDS", _("Seconds that one check may take; default 10."))]
Python = Annotated[
    Text,
    value("--python", "PATH", _("The interpreter that will run the job; default: python3 in PATH.")),
]
Root = Annotated[
    Text, value("--root", "DIR", _("Check the image in this directory instead of the running machine."))
]
Knowledge = Annotated[
    bool, switch("--knowledge", help=_("List the compatibility tables and their sources instead."))
]
EnvOf = Annotated[
    Text, value("--env-of", "PID", _("Check the variables with which this process was started."))
]
AsUser = Annotated[
    Text,
    value("--as-user", "NAME", _("As root: the user of the job; what the job does is tried as this user.")),
]
Source = Annotated[
    Text, value("--source", "SCRIPT", _("Check the variables that a shell has after sourcing this script."))
]
Peers = Annotated[
    Text,
    value(
        "--peers",
        "ADDR,...",
        _("Other nodes of the job, by address or name: check that they can reach this node."),
    ),
]
Wait = Annotated[
    Text,
    value("--wait", "SECONDS", _("Seconds to wait for a rank table that is still being written; default 0.")),
]
User = Annotated[Text, value("--user", "NAME", _("Only leftovers of this user."))]
Job = Annotated[Text, value("--job", "SLURM_JOB_ID", _("Only leftovers of this Slurm job."))]
Like = Annotated[
    Text, value("--like", "FILE", _("Also compare this node with this snapshot of a good node."))
]
JobScope = Annotated[
    Text,
    value(
        "--scope",
        "all|node|job",
        _("Scope: node is the machine, job is this shell and its job, all is both; default job."),
    ),
]
JobProfile = Annotated[
    Text,
    value(
        "--profile",
        "full|quick",
        _(
            "Profile: full runs all checks, quick skips those that start a vendor tool such as npu-smi; "
            "default full."
        ),
    ),
]
JobPython = Annotated[
    Text,
    value(
        "--python",
        "PATH",
        _("The interpreter that will run the job; default: that of the command, else python3 in PATH."),
    ),
]
JobSource = Annotated[
    Text, value("--source", "SCRIPT", _("Start the job with the variables that sourcing this script sets."))
]
Force = Annotated[bool, switch("--force", help=_("Start the job even when the node is not ready."))]
Deep = Annotated[bool, switch("--deep", help=_("First import the frameworks and run a small computation."))]
Silent = Annotated[
    bool, switch("-q", "--quiet", help=_("Print only the verdict, and nothing if the node is ready."))
]
Words = Annotated[
    Texts,
    argument("[--] COMMAND...", _("The command to start, followed by its arguments.")),
]
Lang = Annotated[
    Text,
    value("--lang", "en|zh", _("Language of the output; default: from LANG, and English in JSON.")),
]
Color = Annotated[
    Text, value("--color", "auto|always|never", _("When to use color; default auto: on a terminal."))
]
ConfigFile = Annotated[
    Text, value("--config", "FILE", _("Also read this configuration file, after the others."))
]
DryRun = Annotated[bool, switch("--dry-run", help=_("Show the plan, change nothing."))]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help=_("Show what each check examined and found; -vv shows all of it, and why checks do not apply."),
    ),
]
Quiet = Annotated[bool, switch("-q", "--quiet", help=_("Show only the verdict."))]
Version = Annotated[bool, switch("--version", help=_("Print the version."))]
CacheServer = Annotated[bool, switch("--cache-server", help=_("Leftovers of dead MindSpore cache servers."))]
Risk = Annotated[Text, value("--risk", "safe|caution", _("Highest risk that --yes accepts; default safe."))]
Owner = Annotated[
    Texts,
    value("--owner", "USER", _("As root: also remove this user's leftovers; may be repeated.")),
]
