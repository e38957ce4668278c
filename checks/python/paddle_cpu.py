"""Was the installed Paddle for CPUs built with the library that is fast on them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.python._pip import pip_install
from npudoctor.host.python.interpreter import Distribution

# Written by Paddle's build: a package or one module, depending on the release.
BUILD = ("paddle/version/__init__.py", "paddle/version.py")


@check(
    "paddle-cpu",
    scope=Scope.JOB,
    tags={"paddle"},
    needs=("paddlepaddle",),
    codes={"paddle-cpu.openblas": INFO},
    advisory=True,
)
def paddle_cpu(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Paddle for CPUs on x86-64 is built with MKL.

    ## What it does

    On x86-64, if paddlepaddle is installed without a plug-in for NPUs, reads from its own `paddle/version`
    whether it was built with MKL. Nothing is imported.

    - `openblas`: Paddle was built with OpenBLAS. Information.

    ## Why it matters

    On x86-64 the build with OpenBLAS trains on CPUs markedly slower than the one with MKL. On other machines
    there is no MKL, and nothing to gain.

    ## References

    - Paddle, frequently asked questions on training: training on CPUs is slow.
    """
    paddle = next(iter(host.interpreter.distributions("paddlepaddle")), None)
    if paddle is None or host.interpreter.version_of("paddle-custom-npu") is not None:
        raise Skip(_("Paddle for CPUs is not installed in {python}", python=host.interpreter.label))
    # The interpreter's machine; for an image, which is not run, the machine of the installed wheel.
    machine = host.interpreter.layout().machine
    if machine is None:
        wheel = host.files.text(f"{paddle.folder}/WHEEL") or ""
        machine = read_machine(wheel) or _("an unspecified machine")
    if machine != "x86_64":
        raise Skip(_("this check applies to x86-64, but Paddle is for {machine}", machine=machine))
    path, flag = _read_mkl_flag(host, paddle)
    yield Facts({"paddle": paddle.version, "with_mkl": flag})
    if flag is None:
        raise Unknown(_("could not determine how the installed Paddle was built"), advisory=True)
    if flag.upper() == "OFF":
        yield Finding(
            "paddle-cpu.openblas",
            _(
                "Paddle {version} was built with OpenBLAS: on this machine the build with MKL is faster",
                version=paddle.version,
            ),
            evidence=(paddle.evidence, f"{path}: with_mkl = {flag}"),
            fix=pip_install(
                host, _("install the build with MKL"), "--force-reinstall", f"paddlepaddle=={paddle.version}"
            ),
        )


def read_machine(wheel: str) -> Optional[str]:
    """Return the machine in the tags of a wheel for Linux; None if it is neither x86_64 nor aarch64."""
    for line in wheel.split("\n"):
        key, _colon, tag = line.rstrip().partition(":")
        if key == "Tag" and "linux" in tag:
            for machine in ("x86_64", "aarch64"):
                if tag.endswith(f"_{machine}"):
                    return machine
    return None


def _read_mkl_flag(host: Host, paddle: Distribution) -> tuple[str, Optional[str]]:
    site = paddle.folder.rpartition("/")[0]
    for name in BUILD:
        text = host.files.text(f"{site}/{name}") or ""
        match = re.search(r"^with_mkl[ \t]*=[ \t]*['\"](\w+)['\"]", text, re.MULTILINE)
        if match:
            return f"{site}/{name}", match[1]
    return "", None
