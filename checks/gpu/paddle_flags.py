"""Are Paddle's flags in the environment what Paddle takes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Compared,
    Facts,
    Finding,
    Host,
    Scope,
    Skip,
    _,
    change_variable,
    check,
)
from npudoctor.host import CannotTell
from npudoctor.knowledge.tables import load_table

# Distributions that contain Paddle or extend it to NPUs.
PACKAGES = ("paddlepaddle", "paddlepaddle-gpu", "paddlepaddle-npu", "paddle-custom-npu")
COLLECTION = "FLAGS_eager_delete_tensor_gb"
FlagRow = Mapping[str, Any]
SHOWN = 200


@check(
    "paddle-flags",
    scope=Scope.JOB,
    tags={"paddle", "nvidia", "ascend"},
    needs=("$FLAGS_*",),
    codes={
        "paddle-flags.bad-value": WARNING,
        "paddle-flags.pasted-punctuation": WARNING,
        "paddle-flags.no-such-device": WARNING,
        "paddle-flags.collection-off": INFO,
        "paddle-flags.no-effect": INFO,
    },
    compares=(Compared("variables"),),
)
def paddle_flags(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Paddle's flags in the environment are valid.

    ## What it does

    If Paddle is installed, checks the variables FLAGS_* that are set for memory, devices and communication
    against a table in which each row names its source.

    - `paddle-flags.bad-value`: Paddle does not accept the value, or reads only part of it (`0.5x` is read as
      0.5), or it is out of range. Depending on its release Paddle ends with an error or uses the default.
    - `paddle-flags.pasted-punctuation`: full-width digits, quotes that the shell did not remove, a semicolon.
    - `paddle-flags.no-such-device`: FLAGS_selected_gpus or FLAGS_selected_npus names a device that this
      machine does not have.
    - `paddle-flags.collection-off`: FLAGS_eager_delete_tensor_gb is below 0: memory that is no longer used is
      not freed. Information.
    - `paddle-flags.no-effect`: FLAGS_fast_eager_deletion_mode or FLAGS_memory_fraction_of_eager_deletion is
      set while FLAGS_eager_delete_tensor_gb is below 0, or FLAGS_fraction_of_gpu_memory_to_use together with
      FLAGS_initial_gpu_memory_in_mb. Information.

    ## Why it matters

    A job that is short of device memory is tuned by these flags. A flag that Paddle does not understand has
    no effect, and Paddle reports nothing.

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written.

    ## References

    - Paddle, FLAGS: memory management, device management, distributed, cudnn.
    - PaddlePaddle/Paddle, flags.cc and flags_native.cc: the types, and how they are read.
    """
    if host.options.root is not None:
        raise Skip(_("an image is not running"))
    variables = host.variables
    if not any(name.startswith("FLAGS_") for name in variables):
        raise Skip(_("none of the variables of this check is set"))

    rows = {row["name"]: row for row in load_table("paddle_flags")["flag"] if variables.get(row["name"])}
    if not rows:
        raise Skip(_("none of the variables of this check is set"))
    if not any(host.interpreter.version_of(name) for name in PACKAGES):
        raise Skip(_("Paddle is not installed in {python}", python=host.interpreter.label))
    yield Facts({"variables": {name: variables[name] for name in rows}})
    for row in rows.values():
        yield from _judge(host, row, variables[row["name"]])


def _judge(host: Host, row: FlagRow, value: str) -> Iterator[Finding]:
    """Yield the first finding about one flag: pasted punctuation, a bad value, or its effects."""
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.job.input_cleanup import clean_up
    from npudoctor.knowledge.paddle_flags import what_is_wrong

    why = what_is_wrong(row, value)
    cleaned = clean_up(value)
    if why is None:
        yield from _judge_effects(host, row, value)
    elif cleaned and cleaned != value and what_is_wrong(row, cleaned) is None:
        # A value with the punctuation of a document in it.
        text = _(
            "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant"
        )
        yield _finding("pasted-punctuation", text, row, value, cleaned, meant=cleaned)
    else:
        yield _finding("bad-value", _("{name} is {value}: {why}"), row, value, why=why)


def _judge_effects(host: Host, row: FlagRow, value: str) -> Iterator[Finding]:
    """Judge what a valid value does together with the devices and the other flags."""
    from npudoctor.knowledge.paddle_flags import parse_devices, parse_double

    variables, name = host.variables, row["name"]
    if row["kind"] == "devices":
        try:
            count = len((host.npus if name.endswith("npus") else host.gpus).nodes)
        except CannotTell:
            # With an unknown number of devices no id can be out of range.
            count = 0
        missing_devices = [device for device in parse_devices(value) if count and device >= count]
        if missing_devices:
            yield _finding(
                "no-such-device",
                _("{name} is {value}, but there are only {count} devices: {beyond} is not one of them"),
                row,
                value,
                count=str(count),
                beyond=", ".join(map(str, missing_devices)),
            )
    # A negative threshold turns the garbage collection of tensors off (Paddle, FLAGS: memory management).
    if name == COLLECTION and parse_double(value) < 0:
        yield _finding(
            "collection-off",
            _("{name} is {value}: a negative value keeps memory that is no longer used"),
            row,
            value,
        )
    # A flag that needs another one has no effect while that is negative; a flag that is beaten has none while
    # the other is positive.
    for key, wins in (("needs", -1), ("beaten_by", 1)):
        other = row.get(key, "")
        if parse_double(variables.get(other, "")) * wins > 0:
            text = _("{name} is set but has no effect with {other}={theirs}")
            yield _finding("no-effect", text, row, value, other=other, theirs=variables[other])


def _finding(code: str, text: str, row: FlagRow, value: str, better: str = "", **words: str) -> Finding:
    """Return the finding; its fix sets `better`, or unsets the variable if that is ""."""
    name = row["name"]
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    source = _("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"])
    title = _("correct {name}") if better else _("unset {name}")
    return Finding(
        f"paddle-flags.{code}",
        text.format(name=name, value=shown, **words),
        evidence=(f"{name}={shown}", source),
        action=Action.CONFIG,
        fix=change_variable(title.format(name=name), name, better or None, value),
    )
