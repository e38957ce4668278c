"""The options with which a container is started to have what it lacks, for all checks that miss something."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor import Fix, Risk, _


def ask_for_paths(paths: Iterable[str]) -> Fix:
    """Return a fix that asks for these paths: device nodes by --device, other paths by -v. Nobody can add
    them from inside a running container."""
    return ask_for_options(
        ("--device", path) if path.startswith("/dev/") else ("-v", f"{path}:{path}:ro") for path in paths
    )


def ask_for_options(options: Iterable[tuple[str, ...]]) -> Fix:
    """Return a fix that asks for these options of `docker run`, each a tuple of words."""
    chosen = tuple(dict.fromkeys(options))
    return Fix(
        _(
            "ask whoever starts the container to add {options}",
            options=" ".join(" ".join(option) for option in chosen),
        ),
        risk=Risk.MANUAL,
        needs_root=False,
        container=tuple(word for option in chosen for word in option),
    )
