"""Which findings `npudoctor env` answers: it is advised only where what it prints would help."""

from __future__ import annotations

from npudoctor.core.model import Finding
from npudoctor.facts.cann.installations import installs_of
from npudoctor.host import CannotTell, Host

# The checks of a shell's variables that `env` asks.
CHECKS = (
    *("cann-env", "aicpu-path", "library-path", "te-topi", "nnal-atb"),
    *("log-settings", "log-directory", "libpython", "libstdcxx", "training-env", "identity", "hccl-env"),
)
# Somebody may have meant it so, or it must be the same on every node: said, and left to a person.
LEFT = tuple(
    f"hccl-env.{word}" for word in ("bad-value", "unsupported-pair", "conflict", "timeout-order", "whitelist")
)


def answered_by_env(finding: Finding) -> bool:
    """Return whether `npudoctor env` handles what this finding says about variables, where CANN is
    installed.
    """
    return finding.code.partition(".")[0] in CHECKS and not finding.code.startswith(LEFT)


def env_helps(finding: Finding, host: Host) -> bool:
    """The same on this machine: without CANN `env` prints no line."""
    try:
        return answered_by_env(finding) and bool(installs_of(host))
    except CannotTell:
        return False
