"""Does Paddle's plug-in for NPUs go with the installed Paddle and the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.python._pip import pip_install, pip_replace
from npudoctor.facts.cann.framework_pair import pair_finding, skip_reason_without_cann
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version
from npudoctor.knowledge.compatibility import Pair, judge_pair
from npudoctor.knowledge.versions import public_version

if TYPE_CHECKING:
    from packaging.version import Version

PLUGIN = "paddle-custom-npu"
# Plug-ins before 3.0 were for the first Ascend 910 only, and no document names a CANN for them.
KNOWN_FROM = 3


@check(
    "paddle-npu",
    scope=Scope.JOB,
    tags={"ascend", "paddle"},
    needs=("paddle-custom-npu",),
    codes={
        "paddle-npu.paddle-missing": ERROR,
        "paddle-npu.gpu-build": WARNING,
        "paddle-npu.other-release": INFO,
        "paddle-npu.cann-incompatible": ERROR,
        "paddle-npu.cann-not-listed": WARNING,
        "paddle-npu.newer-than-table": INFO,
        "paddle-npu.site-table": WARNING,
    },
)
def paddle_npu(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The Paddle NPU plug-in matches Paddle and CANN.

    ## What it does

    If paddle-custom-npu is installed, looks for paddlepaddle of the same release, in its build for CPUs, and
    compares CANN with the versions for which the plug-in was published or built. Nothing is imported.

    - `paddle-npu.paddle-missing`: neither paddlepaddle nor paddlepaddle-gpu is installed.
    - `paddle-npu.gpu-build`: only the build for GPUs is installed.
    - `paddle-npu.other-release`: the version numbers of the two differ. Information: no source says that they
      must be equal.
    - `paddle-npu.cann-not-listed`, `cann-incompatible`, `newer-than-table`, `site-table`: the same as for
      torch-npu. Few rows are published, all about CANN 8.0, so a newer CANN is only information; there are no
      rows for plug-ins before 3.0.

    ## Why it matters

    The plug-in is loaded by Paddle, and built against its headers and the operators of one CANN. When they do
    not match, Paddle starts without NPUs, or ends with an undefined symbol.

    ## Fix safety

    Shown only: another Paddle may be incompatible with other packages in that environment.

    ## References

    - PaddlePaddle/PaddleCustomDevice, backends/npu/README.md.
    - `npudoctor list --knowledge` says which rows are loaded.
    """
    plugin = next(iter(host.interpreter.distributions(PLUGIN)), None)
    if plugin is None:
        raise Skip(_("paddle-custom-npu is not installed in {python}", python=host.interpreter.label))
    names = ("paddlepaddle", "paddlepaddle-gpu")
    paddle = next((copy for name in names for copy in host.interpreter.distributions(name)[:1]), None)
    yield from broken_rows(host, "paddle-npu", "paddle_npu")
    yield from _judge_paddle(host, plugin, paddle)
    install = cann_in_use(host)
    cann = product_version(host, install) if install else None
    label = paddle.label if paddle else None
    yield Facts({"plugin": plugin.version, "paddle": label, "cann": cann})
    if install is None:
        raise Skip(skip_reason_without_cann(PLUGIN))
    if cann is None:
        raise Unknown(
            _("could not determine the version of the CANN at {path}", path=install.path), advisory=True
        )
    # The rows for this release; rows without a release apply to plug-ins from 3.0 on and to development
    # builds.
    plugin_release = parse_version(plugin)
    result = judge_pair(
        [
            Pair(
                plugin.version,
                row.texts("cann"),
                row["source"],
                row["as_of"],
                bool(row.values.get("compatible", True)),
            )
            for row in host.knowledge.rows("paddle_npu", "cann")
            if row["plugin"] == PLUGIN
            for release in (public_version(row["release"]),)
            if (release is None and (plugin_release.major >= KNOWN_FROM or not any(plugin_release.release)))
            or (release is not None and release == public_version(plugin.version))
        ],
        plugin.version,
        cann,
    )
    finding = pair_finding("paddle-npu", PLUGIN, plugin.version, cann, result)
    if finding is not None:
        yield finding


def _judge_paddle(host: Host, plugin: Distribution, paddle: Optional[Distribution]) -> Iterator[Finding]:
    title = _("install the Paddle that the plug-in extends")
    release = parse_version(plugin)
    if paddle is None:
        yield Finding(
            "paddle-npu.paddle-missing",
            _("paddle-custom-npu {plugin} is installed without paddlepaddle", plugin=plugin.version),
            evidence=(plugin.evidence,),
            action=Action.CONFIG,
            fix=pip_install(host, title, _read_requirement(release)),
        )
        return
    if paddle.name.lower().endswith("gpu"):
        yield Finding(
            "paddle-npu.gpu-build",
            _(
                "paddle-custom-npu {plugin} needs Paddle for CPUs, but {name} {paddle} is for GPUs",
                plugin=plugin.version,
                name=paddle.name,
                paddle=paddle.version,
            ),
            evidence=(plugin.evidence, paddle.evidence),
            action=Action.CONFIG,
            fix=pip_replace(host, title, (paddle.name,), _read_requirement(release)),
        )
    paddle_release = parse_version(paddle)
    # Builds from the development branch report 0.0.0.
    if (
        release.release[:2] != paddle_release.release[:2]
        and any(release.release)
        and any(paddle_release.release)
    ):
        yield Finding(
            "paddle-npu.other-release",
            _(
                "paddle-custom-npu {plugin} does not match {name} {paddle}: their releases differ",
                plugin=plugin.version,
                name=paddle.name,
                paddle=paddle.version,
            ),
            evidence=(plugin.evidence, paddle.evidence),
        )


def _read_requirement(plugin: Version) -> str:
    """Return the requirement for the matching Paddle: the same release, for a build between releases its
    series."""
    if not any(plugin.release):
        return "paddlepaddle"
    is_exact = not (plugin.is_prerelease or plugin.is_postrelease)
    return f"paddlepaddle=={plugin.base_version if is_exact else f'{plugin.major}.{plugin.minor}.*'}"
