"""The second libgomp of an environment, for which an older C library may have no static TLS left."""

from __future__ import annotations

from typing import Optional

from npudoctor import Export, Finding, Fix, Host, Risk, _
from npudoctor.facts.job.process import machine_of
from npudoctor.host.libraries.loader import Loader

GOMP = "libgomp.so.1"
# From here on the C library keeps some static TLS for what is loaded late.
ENOUGH = "GLIBC_2.32"
PRELOAD = "LD_PRELOAD"


def second_libgomp(host: Host, loader: Loader) -> Optional[Finding]:
    """On aarch64: a framework brings its own libgomp, and beside the interpreter lies another one, which is
    loaded after it when something needs that; None where it is preloaded, or the C library is newer."""
    offered = next((one.library.defines for one in loader.loaded if one.name == "libc.so.6"), ())
    brought = [one for one in loader.loaded if "/libgomp" in one.path]
    if not offered or ENOUGH in offered or not brought or machine_of(host) != "aarch64":
        return None
    own = f"{host.interpreter.path.rpartition('/')[0].rpartition('/')[0]}/lib/{GOMP}"
    real = host.files.real(own)
    if real is None or real in {host.files.real(one.path) for one in brought}:
        return None
    text = _(
        "a second libgomp, {own}, may be loaded after {path}: with this C library that can end in "
        "'cannot allocate memory in static TLS block'"
    )
    before = host.variables.get(PRELOAD, "")
    return Finding(
        "libstdcxx.static-tls",
        text.format(own=own, path=brought[0].path),
        evidence=(*(one.path for one in brought), own),
        fix=Fix(
            _("load it first, should that message come"),
            steps=(Export(PRELOAD, f"{own}:{before}" if before else own),),
            undo=Export(PRELOAD, before).lines() if before else (f"unset {PRELOAD}",),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
