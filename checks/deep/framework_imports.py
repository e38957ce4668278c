"""Can every installed framework be imported, as a job would?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.deep._probe_failures import (
    ProbeFailure,
    explain_failure,
    probe_imports,
    report_crash_once,
    report_failure,
)
from npudoctor.facts.job.probes import NoTimeLeft, ProbeResult

# What is imported for a distribution: plug-ins after what they extend.
MODULES = {
    "torch": ("torch",),
    "torch-npu": ("torch", "torch_npu"),
    "torchvision": ("torchvision",),
    "torchaudio": ("torchaudio",),
    "mindspore": ("mindspore",),
    "mindspore-ascend": ("mindspore",),
    "mindspore-gpu": ("mindspore",),
    "paddlepaddle": ("paddle",),
    "paddlepaddle-gpu": ("paddle",),
    "vllm": ("vllm",),
    "vllm-ascend": ("vllm", "vllm_ascend"),
    "tensorflow": ("tensorflow",),
    "tensorflow-cpu": ("tensorflow",),
}
# What the import of these begins with, by their own modules: where that does not end, neither does theirs.
BEGINS_WITH = dict.fromkeys(("torch_npu", "torchvision", "torchaudio", "vllm", "vllm_ascend"), "torch")
SLOW = 60.0  # seconds


@check(
    "framework-imports",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=tuple(MODULES),
    quick=False,
    codes={
        "framework-imports.failed": ERROR,
        "framework-imports.slow": WARNING,
        "framework-imports.died-once": WARNING,
    },
)
def framework_imports(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Every installed framework can be imported.

    ## What it does

    Imports each installed framework in a child process of the examined interpreter, with the variables and
    the working directory of the job: torch, torch with torch_npu, torchvision, torchaudio, mindspore, paddle,
    vllm, vllm with vllm-ascend, tensorflow. They run one after the other, each with its own time limit (120
    s). Modules are found as from the working directory. Only a temporary folder is written to, and it is
    removed; processes that the import leaves running are ended. The check runs with `--profile deep`, or if
    it is selected by name. As root it runs only if everything that it would execute belongs to root.

    - `framework-imports.failed`: the import ended with an error, was killed, or did not end. The exception
      shows the cause: the module, library or file, the package that it belongs to, and where the error
      occurred; for a crash or a hang, where the program was. What `npudoctor explain` knows about such a
      failure is added. Imports that fail for the same cause are reported together; a cause that another check
      names is folded under that check. An import that crashes is repeated once with as little of npudoctor's
      own code as possible: only two crashes are a failure. If `import torch` does not end, imports that begin
      with it are not tried.
    - `framework-imports.died-once`: the import crashed, and the second try succeeded.
    - `framework-imports.slow`: the import took more than 60 s.

    ## Why it matters

    Metadata cannot prove that an import works. This check does.

    ## References

    - `npudoctor explain --help`.
    """
    todo = _choose_imports(host)
    seconds: dict[str, float] = {}
    memory: dict[str, int] = {}
    versions: dict[str, object] = {}
    failures: dict[str, list[tuple[str, ProbeFailure]]] = {}
    untried: list[str] = []
    for modules in todo:
        probed = _probe_import(host, modules, todo)
        if probed is None or probed.single:
            untried.append(modules[-1])
        if probed is not None and (probed.died or probed.single):
            yield report_crash_once("framework-imports.died-once", f"import {modules[-1]}", probed)
        if probed is None or probed.document is None:
            if probed is not None and not probed.single:
                failure = explain_failure(host, probed)
                failures.setdefault(failure.sentence, []).append((modules[-1], failure))
            continue
        key = ".".join(modules)
        seconds[key], memory[key] = probed.document["seconds"], probed.document["bytes"]
        versions.update(probed.document["versions"])
        if seconds[key] > SLOW:
            yield _report_slow(modules[-1], seconds[key])
    for sentence, alike in failures.items():
        names = ", ".join(name for name, _failure in alike)
        message = _("import {module} fails: {ending}", module=names, ending=sentence)
        yield report_failure("framework-imports.failed", message, alike[0][1])
    facts: dict[str, object] = {"seconds": seconds, "bytes": memory, "versions": versions}
    if failures:
        facts["causes"] = {name: failure.facts for alike in failures.values() for name, failure in alike}
    yield Facts(facts)
    if untried:
        raise Unknown(_("no result before the deadline of the run: {names}", names=", ".join(untried)))


def _choose_imports(host: Host) -> list[tuple[str, ...]]:
    """Return the modules to import, for each framework a tuple in import order; raises Skip if none is
    installed."""
    todo = [modules for name, modules in MODULES.items() if host.interpreter.installed(name) is not None]
    if not todo:
        host.interpreter.require_certain_absence(next(iter(MODULES)))
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    return list(dict.fromkeys(todo))


def _probe_import(host: Host, modules: tuple[str, ...], todo: list[tuple[str, ...]]) -> Optional[ProbeResult]:
    """Return how the import ended; None if no time was left. If the import that it begins with hung, that
    result is returned: waiting for it a second time tells nothing new."""
    first = (BEGINS_WITH.get(modules[-1], ""),)
    try:
        before = probe_imports(host, first) if first in todo else None
        is_hanging = before is not None and before.answer.ended == "timeout"
        return before if is_hanging else probe_imports(host, modules)
    except NoTimeLeft:
        # The deadline of the run is reached: the caller reports the module as not tried.
        return None


def _report_slow(module: str, seconds: float) -> Finding:
    return Finding(
        "framework-imports.slow",
        _(
            "import {module} took {seconds:.0f} s, more than {limit:.0f} s",
            module=module,
            seconds=seconds,
            limit=SLOW,
        ),
        action=Action.NONE,
    )
