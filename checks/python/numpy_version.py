"""Is the installed NumPy one that the installed frameworks accept?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.python._pip import install_accepted
from npudoctor.core.frozen import replace
from npudoctor.facts.python.frameworks import failure_beside
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version, read_requirement
from npudoctor.knowledge.frameworks import find_numpy_row
from npudoctor.knowledge.tables import KnowledgeRow

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# Frameworks and what extends them; the packages that CANN ships matter only beside one of these.
FRAMEWORKS = (
    *("mindspore", "mindspore-ascend", "mindspore-gpu"),
    *("torch", "torch-npu", "torchvision", "torchaudio", "vllm", "vllm-ascend", "triton-ascend"),
    *("paddlepaddle", "paddlepaddle-gpu", "paddle-custom-npu"),
)
# Wheels in CANN's toolkit that use NumPy; alone, without a framework, they matter to nobody.
OF_CANN = ("te", "topi", "hccl", "auto-tune", "schedule-search", "opc-tool")


@check(
    "numpy-version",
    scope=Scope.JOB,
    tags={"mindspore", "pytorch", "paddle"},
    needs=FRAMEWORKS,
    codes={"numpy-version.unsuitable": ERROR, "numpy-version.missing": ERROR},
)
def numpy_version(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The installed frameworks accept the installed NumPy.

    ## What it does

    Compares NumPy with what MindSpore, PyTorch, vllm-ascend, Paddle and the packages of CANN require in their
    own metadata, as far as they are installed. Nothing is imported. A package that requires any NumPy accepts
    every version. The exception is torch before 2.3, whose metadata names no NumPy: it was built for NumPy 1.

    - `unsuitable`: one of them does not accept the installed NumPy. An error if a row of our table names the
      error that this was seen to cause; a warning if only metadata says so, or if little fails.
    - `missing`: NumPy is not installed, and one of them requires it.

    ## Why it matters

    NumPy 2 changed the binary interface: what was built against NumPy 1 may fail at import or when an array
    is passed (torch before 2.3: "Numpy is not available"). MindSpore 2.7 to 2.9, which require `numpy<2.0.0`,
    work with it except for datasets of plain numbers or strings ("Unable to avoid copy"). NumPy 2 is often
    installed unasked, as a dependency of another package.

    ## Fix safety

    Shown only: another NumPy may be incompatible with other packages in that environment.

    ## References

    - The metadata (`Requires-Dist`) of the wheels on PyPI.
    - NumPy 2.0, migration guide.
    - pytorch/pytorch, issue 132179: PyTorch 2.3.0 is the first that supports NumPy 2.
    """
    layout = host.interpreter.layout()
    users = [copy for name in FRAMEWORKS for copy in host.interpreter.distributions(name)[:1]]
    if not users:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    users += [copy for name in OF_CANN for copy in host.interpreter.distributions(name)[:1]]
    requirements = ((user, read_requirement(user, "numpy", layout)) for user in users)
    needs = [(user, specifier) for user, specifier in requirements if specifier is not None]
    row, built = _table_need(host, next(iter(host.interpreter.distributions("torch")), None))
    numpy = next(iter(host.interpreter.distributions("numpy")), None)
    yield Facts(
        {
            "numpy": numpy.version if numpy else None,
            "required": {user.name: str(specifier) for user, specifier in needs},
        }
    )
    if numpy is None:
        if needs:
            text = _("{name} {version} requires NumPy, which is not installed")
            yield _finding(host, "numpy-version.missing", text, needs, needs, [])
            return
        raise Skip(_("NumPy is not installed in {python}", python=host.interpreter.label))
    version = parse_version(numpy)
    all_needs = [*needs, *built]
    if not all_needs:
        text = _("no framework in {python} says which NumPy it accepts")
        raise Skip(text.format(python=host.interpreter.label))
    violated = [pair for pair in all_needs if not pair[1].contains(version, prereleases=True)]
    if violated:
        text = _("{name} {version} requires numpy{required}, but NumPy {numpy} is installed")
        finding = _finding(host, "numpy-version.unsuitable", text, violated, all_needs, [numpy])
        table = (f"{row['source']}, {row['as_of']}",) if row and built[0] in violated else ()
        failures = list(filter(None, (failure_beside(host, user, numpy) for user, _of in violated)))
        yield replace(
            finding,
            severity=WARNING if all(failure.lenient for failure in failures) else ERROR,
            evidence=(*finding.evidence, *(failure.reason for failure in failures), *table),
        )


def _table_need(
    host: Host, torch: Optional[Distribution]
) -> tuple[Optional[KnowledgeRow], list[tuple[Distribution, SpecifierSet]]]:
    """Return what our table says about torch: its metadata names no NumPy, it imports with any and fails
    later."""
    # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs compare no
    # version here.
    from packaging.specifiers import SpecifierSet

    row = find_numpy_row(host.knowledge, parse_version(torch)) if torch is not None else None
    return row, [(torch, SpecifierSet(row["numpy"]))] if torch is not None and row is not None else []


def _finding(
    host: Host,
    code: str,
    text: str,
    violated: list[tuple[Distribution, SpecifierSet]],
    needs: list[tuple[Distribution, SpecifierSet]],
    numpy: list[Distribution],
) -> Finding:
    user, specifier = violated[0]
    words = {"numpy": numpy[0].version if numpy else "", "name": user.name, "version": user.version}
    return Finding(
        code,
        text.format(required=specifier, **words),
        evidence=(
            *(copy.evidence for copy in numpy),
            *(
                _("{name} {version} requires numpy{required}", name=u.name, version=u.version, required=s)
                for u, s in violated
            ),
        ),
        action=Action.CONFIG,
        fix=install_accepted(host, "numpy", _("install a NumPy that all installed packages accept"), needs),
    )
