"""Do the installed frameworks compute what they should?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.deep._probe_failures import (
    SECONDS,
    explain_failure,
    probe_imports,
    report_crash_once,
    report_failure,
)
from npudoctor.facts.job.probes import NoTimeLeft, ProbeResult, probe

# The distributions of which any brings the framework, and what makes it use an NPU.
FRAMEWORKS = {
    "torch": (("torch",), "torch-npu"),
    "mindspore": (("mindspore", "mindspore-ascend", "mindspore-gpu"), "mindspore"),
    "paddle": (("paddlepaddle", "paddlepaddle-gpu"), "paddle-custom-npu"),
}


@check(
    "framework-selftest",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch"},
    needs=tuple(name for names, _plugin in FRAMEWORKS.values() for name in names),
    quick=False,
    codes={"framework-selftest.failed": ERROR, "framework-selftest.died-once": WARNING},
)
def framework_selftest(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Every installed framework passes its self-test.

    ## What it does

    Runs a test of each installed framework in a child process of the examined interpreter, as
    `framework-imports` does: `mindspore.run_check()`, `paddle.utils.run_check()`, and for torch a matrix
    product, a convolution, a gradient, and, if NumPy is installed, conversion to and from it. It runs on the
    CPU with `--expect none` or if there is no accelerator; otherwise on one device. If the import alone fails
    or does not end, it is not tried again.

    - `framework-selftest.failed`: the test ended with an error, was killed, or did not end.
    - `framework-selftest.died-once`: the test crashed, and the second try succeeded.

    ## Why it matters

    An import may succeed and the first operator still fail, because of another NumPy or a library that is
    loaded late.

    ## References

    - MindSpore, installation guide: `mindspore.run_check()`. Paddle: `paddle.utils.run_check()`.
    """
    todo = [
        (framework, plugin)
        for framework, (names, plugin) in FRAMEWORKS.items()
        if any(map(host.interpreter.installed, names))
    ]
    if not todo:
        host.interpreter.require_certain_absence("torch")
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    seconds: dict[str, float] = {}
    causes: dict[str, object] = {}
    untried: list[str] = []
    for framework, plugin in todo:
        device = _choose_device(host, framework, plugin)
        try:
            probed, is_imported = _compute(host, framework, device)
        except NoTimeLeft:
            untried.append(framework)
            continue
        if probed.single:
            untried.append(framework)
        if (probed.died or probed.single) and is_imported:
            yield report_crash_once("framework-selftest.died-once", f"{framework} ({device})", probed)
        if probed.document is not None:
            seconds[f"{framework} on {device}"] = probed.document["seconds"]
        elif not probed.single:
            failure = explain_failure(host, probed)
            causes[framework] = failure.facts
            # Where the import fails already, the other check says so.
            message = _(
                "{framework} fails on the {device}: {ending}",
                framework=framework,
                device=device.upper(),
                ending=failure.sentence,
            )
            echo_of = () if is_imported else ("framework-imports.failed",)
            finding: Finding = report_failure("framework-selftest.failed", message, failure, echo_of)
            yield finding
    yield Facts({"seconds": seconds, "causes": causes} if causes else {"seconds": seconds})
    if untried:
        raise Unknown(_("no result before the deadline of the run: {names}", names=", ".join(untried)))


def _choose_device(host: Host, framework: str, plugin: str) -> str:
    """Return the device to test on: an NPU if one is usable and the framework supports it; a GPU for torch
    only."""
    if host.options.expect == "none":
        return "cpu"
    if host.npus.is_usable and host.interpreter.installed(plugin) is not None:
        return "npu"
    return "cuda" if framework == "torch" and host.gpus.is_usable else "cpu"


def _compute(host: Host, framework: str, device: str) -> tuple[ProbeResult, bool]:
    """Run the self-test and return its result and True; if the import already fails, its result and False."""
    on_npu = (framework, device) == ("torch", "npu")
    import_result = probe_imports(host, ("torch", "torch_npu") if on_npu else (framework,))
    if import_result.document is None:
        return import_result, False
    # torch works without NumPy; if it is missing, package-requirements reports that.
    without = () if host.interpreter.installed("numpy") is not None else ("without-numpy",)
    return probe(host, "selftest.py", (framework, device, *without), SECONDS), True
