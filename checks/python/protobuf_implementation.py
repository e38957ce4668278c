"""Does the installed protobuf have the implementation that a variable asks for?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, Skip, _, check
from npudoctor.host.python.installed_files import site_of

# protobuf reads it at its first import (google/protobuf/internal/api_implementation.py).
VARIABLE = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
# The folder and the name of each implementation's extension module; the one in Python is always there.
MODULES = {"cpp": ("google/protobuf/pyext", "_message."), "upb": ("google/_upb", "_message.")}


@check(
    "protobuf-implementation",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "tensorflow"},
    needs=(f"${VARIABLE}",),
    codes={"protobuf-implementation.not-there": ERROR},
)
def protobuf_implementation(host: Host) -> Iterator[Union[Finding, Facts]]:
    """protobuf has the requested implementation.

    ## What it does

    Where PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION is `cpp` or `upb`, looks for the extension module of that
    implementation in the installed protobuf. Nothing is imported.

    - `not-there`: this protobuf has no such module, so importing it fails.

    ## Why it matters

    Old instructions set `cpp` for speed. protobuf 4 and later have no such module: `import mindspore` ends
    with `cannot import name '_message' from 'google.protobuf.pyext'`.

    ## Fix safety

    The line changes the variable of the shell that starts the job.

    ## References

    - protocolbuffers/protobuf, python/README.md: implementations.
    """
    implementation = host.variables.get(VARIABLE, "")
    if implementation not in MODULES:
        raise Skip(
            _("{variable} does not request an implementation that could be missing", variable=VARIABLE)
        )
    protobuf = host.interpreter.installed("protobuf")
    if protobuf is None:
        host.interpreter.require_certain_absence("protobuf")
        raise Skip(_("protobuf is not installed in {python}", python=host.interpreter.label))
    folder, name = MODULES[implementation]
    files = [file for file in host.files.names(f"{site_of(protobuf)}/{folder}") if file.startswith(name)]
    yield Facts({"protobuf": protobuf.version, "wanted": implementation})
    if not any(file.endswith(".so") for file in files):
        yield Finding(
            "protobuf-implementation.not-there",
            _(
                "{variable} is {value}, which protobuf {version} does not have",
                variable=VARIABLE,
                value=implementation,
                version=protobuf.version,
            ),
            evidence=(f"{site_of(protobuf)}/{folder}",),
            action=Action.CONFIG,
            fix=Fix(
                _("let protobuf choose its implementation"),
                steps=(Command(("unset", VARIABLE)),),
                risk=Risk.MANUAL,
                needs_root=False,
            ),
        )
