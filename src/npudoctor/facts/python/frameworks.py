"""The installed frameworks, and what they require together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.facts.python.closure import (
    Closure,
    KnownFailure,
    Overruled,
    Requirement,
    UnstatedNeed,
    close_requirements,
)
from npudoctor.facts.python.specifiers import accepts
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import read_recorded_files, site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.requirements import read_requirement, read_requirements
from npudoctor.host.python.without_metadata import module_of
from npudoctor.knowledge import requirements as rows
from npudoctor.knowledge.distributions import TABLE, JobDistribution, list_job_distributions
from npudoctor.knowledge.tables import KnowledgeRow

# Modules of frameworks and of what jobs import beside them, which a folder of the job's own may hide.
PACKAGES = (
    *("mindspore", "torch", "torch_npu", "paddle", "numpy", "scipy", "triton", "vllm", "vllm_ascend"),
    *("torchvision", "torchaudio", "transformers", "tensorboard", "te", "topi", "hccl", "tbe"),
)
# The extension module without which a package cannot be imported: folder and name.
EXTENSIONS = {
    "mindspore": (("mindspore", "_c_expression"),),
    "mindspore-ascend": (("mindspore", "_c_expression"),),
    "mindspore-gpu": (("mindspore", "_c_expression"),),
    "paddlepaddle": (("paddle/base", "libpaddle"), ("paddle/fluid", "libpaddle")),
    "paddlepaddle-gpu": (("paddle/base", "libpaddle"), ("paddle/fluid", "libpaddle")),
    "torch": (("torch", "_C"),),
    "torch-npu": (("torch_npu", "_C"),),
    "numpy": (("numpy/_core", "_multiarray_umath"), ("numpy/core", "_multiarray_umath")),
    "scipy": (("scipy/linalg", "_fblas"),),
    "pillow": (("PIL", "_imaging"),),
    "ml-dtypes": (("ml_dtypes", "_ml_dtypes_ext"),),
}

# What protoc writes into each module.
_GENERATED_BY = pattern(r"ValidateProtobufRuntimeVersion\(\s*[\w.]+,\s*(\d+),\s*(\d+),\s*(\d+)")


def job_distributions(host: Host) -> tuple[JobDistribution, ...]:
    """The frameworks and what trainers import upon them, by our table and rows of the site."""
    return host.once("job distributions", lambda: list_job_distributions(host.knowledge))


def is_job_distribution(host: Host, name: str) -> bool:
    """Return whether an installed distribution is one of these; its name as its metadata has it."""
    return normalize_name(name) in {member.name for member in installed_job_distributions(host)}


def is_trainer(host: Host, copy: Distribution) -> bool:
    """Return whether a copy is one of the trainers' stack, which not every job imports."""
    return any(
        member.trainer and other == copy for member, other in installed_job_distributions(host).items()
    )


def installed_job_distributions(host: Host) -> dict[JobDistribution, Distribution]:
    """Those that are installed, each with the first copy on the search path: no other is imported."""
    return host.once("installed job distributions", lambda: _find_installed(host))


def _find_installed(host: Host) -> dict[JobDistribution, Distribution]:
    if not host.knowledge.may_mention(TABLE, host.interpreter.seen_names()):
        return {}
    pairs = ((member, host.interpreter.installed(member.name)) for member in job_distributions(host))
    return {
        member: copy
        for member, copy in pairs
        # Without metadata a folder of the job's own, such as datasets/ on PYTHONPATH, may have such a name.
        if copy is not None and (not member.trainer or _is_certain(copy))
    }


def _is_certain(copy: Distribution) -> bool:
    return copy.folder.endswith(("-info", ".egg")) or site_of(copy).endswith("-packages")


def closure_of(host: Host) -> Closure:
    """What the installed frameworks require; computed once for all checks."""
    return host.once("requirements", lambda: _close_installed(host))


@dataclass(frozen=True)
class ClosedNeed:
    """What a framework requires and whose metadata this user may not read, as where root upgraded it under a
    strict umask.

    `module`: by which it can be tried anyway, "" where its name tells none. `place`: its file or folder.
    `needed`: the import fails without it, as far as is known.
    """

    copy: Distribution
    module: str
    place: str
    needed: bool


def closed_needs(host: Host) -> list[ClosedNeed]:
    """The closed requirements of the installed frameworks, each once; not the frameworks themselves."""
    need_by_folder = {
        need.installed.folder: need
        for need in sorted(closure_of(host).needs, key=lambda need: not need.lenient)  # who needs it counts
        if need.installed is not None
        and not need.installed.headers
        and not is_job_distribution(host, need.name)
    }
    return [
        ClosedNeed(need.installed, *_find_module(host, need.installed), not need.lenient)
        for need in need_by_folder.values()
        if need.installed is not None and _is_closed(host, need.installed)
    ]


def _is_closed(host: Host, copy: Distribution) -> bool:
    try:
        host.files.text(f"{copy.folder}/METADATA", 1)
    except CannotTell as error:
        return isinstance(error.__cause__, PermissionError)
    return False


def _find_module(host: Host, copy: Distribution) -> tuple[str, str]:
    site, module = copy.folder.rpartition("/")[0], module_of(normalize_name(copy.name))
    path = module.replace(".", "/")
    file, package = host.files.sizes(site, [f"{path}.py", f"{path}/__init__.py"])
    if package != -1:
        return module, f"{site}/{path.partition('/')[0]}"
    return (module, f"{site}/{path}.py") if file != -1 else ("", "")


def require_readable_needs(host: Host) -> None:
    """Raise CannotTell where the metadata of something that a framework requires is closed."""
    # Their own requirements are unknown, so that a missing one could not be seen.
    closed = closed_needs(host)
    if closed:
        raise CannotTell(
            _(
                "this user has no permission to read {folders}",
                folders=", ".join(need.copy.folder for need in closed),
            ),
            tried_by=("trial-python",) if all(need.module for need in closed) else (),
        )


def _close_installed(host: Host) -> Closure:
    installed = installed_job_distributions(host)
    roots = [*installed.values()]
    if not roots:
        return Closure((), ())  # nothing to look up in the tables
    untried = {copy.folder for member, copy in installed.items() if not member.tried}
    knowledge = host.knowledge
    return close_requirements(
        host.interpreter,
        roots,
        lenient=lambda user, name: user.folder in untried or _works_without(host, user, name),
        unsaid=lambda user: [
            UnstatedNeed(need.name, need.specifier, _failure_text(row), bool(row.values.get("imports")))
            for need, row in rows.list_unstated_requirements(
                knowledge, normalize_name(user.name), user.version
            )
        ],
        stand_ins=rows.list_stand_ins(knowledge),
        overruled=_find_overruled(host),
        failing=lambda user, copy: (
            failure_beside(host, user, copy)
            or _find_enforced(host, user, copy)
            or _find_newer_generated(host, user, copy)
        ),
    )


def failure_beside(host: Host, user: Distribution, copy: Distribution) -> Optional[KnownFailure]:
    """What is known to fail when these two are installed together; None where no row knows of anything."""
    row = rows.find_failing_row(
        host.knowledge, normalize_name(user.name), user.version, normalize_name(copy.name), copy.version
    )
    return None if row is None else KnownFailure(_failure_text(row), bool(row.values.get("imports")))


def _find_enforced(host: Host, user: Distribution, copy: Distribution) -> Optional[KnownFailure]:
    """What is known to fail with any version that the metadata of `user` refuses: it compares them itself."""
    row = rows.find_enforced_row(
        host.knowledge, normalize_name(user.name), user.version, normalize_name(copy.name)
    )
    if row is None:
        return None
    # Only what is refused: whoever installs the rest is held to the same metadata by pip.
    with suppress(CannotTell, ValueError):  # ValueError: a version that PEP 440 does not know
        specifier = read_requirement(user, copy.name, host.interpreter.layout())
        if specifier is not None and not accepts(specifier, copy.version):
            return KnownFailure(_failure_text(row))
    return None


def _find_newer_generated(host: Host, user: Distribution, copy: Distribution) -> Optional[KnownFailure]:
    """What fails with a protobuf that is older than the one that generated the modules of `user`: each asks
    for that version when it is imported (since protobuf 5.26)."""
    if normalize_name(copy.name) != "protobuf" or not rows.list_imported_modules(
        host.knowledge, normalize_name(user.name), user.version
    ) & {"google.protobuf"}:
        return None
    with suppress(CannotTell, ValueError):  # ValueError: a version that PEP 440 does not know
        specifier = read_requirement(user, copy.name, host.interpreter.layout())
        # What its metadata accepts was tried by who made it; then no file is read.
        if specifier is None or accepts(specifier, copy.version):
            return None
        generated = (
            file.path for file in read_recorded_files(host.files, user) if file.path.endswith("_pb2.py")
        )
        path = f"{site_of(user)}/{next(generated, '')}"
        match = _GENERATED_BY.search(host.files.text(path) or "") if path.endswith(".py") else None
        if match is None:
            return None
        from packaging.version import Version

        if Version(copy.version) < Version(".".join(match.groups())):
            return KnownFailure(
                _(
                    "{what} fails: {error}",
                    what=path,
                    error=f"google.protobuf.runtime_version < {'.'.join(match.groups())}",
                )
            )
    return None


def _works_without(host: Host, user: Distribution, name: str) -> bool:
    """Return whether the import of `user` is known to work without what it requires, or with the installed
    version.
    """
    release = normalize_name(user.name), user.version
    if rows.find_lenient_row(host.knowledge, *release, name) is not None:
        return True
    # What was seen to work is recorded only for frameworks.
    if not is_job_distribution(host, user.name):
        return False
    copy = host.interpreter.installed(name)
    return copy is not None and rows.is_proven_to_work(host.knowledge, *release, name, copy.version)


def _failure_text(row: KnowledgeRow) -> str:
    return _("{what} fails: {error}", what=row["breaks"], error=row["error"])


def _find_overruled(host: Host) -> Overruled:
    """A function that says whether an installed plug-in names the version, and not what it extends.

    vllm-ascend needs the torch that it pins, and vLLM, which pins another one, works with that.
    """
    layout = host.interpreter.layout()
    pinned: dict[str, set[str]] = {}
    for name, user in rows.list_overruling(host.knowledge):
        plugin = host.interpreter.installed(name)
        pinned.setdefault(user, set()).update(read_requirements(plugin, layout) if plugin is not None else ())
    return lambda user, name: name in pinned.get(normalize_name(user.name), ())


def is_optional(need: Requirement) -> bool:
    """Return whether the import works although this requirement is not met, as far as is known.

    What is missing is needed unless a row knows better. Another version than the required one often works: it
    is an error where a row knows what fails with it.
    """
    if need.lenient:
        return True
    return need.installed is not None and not need.reason


def sort_key(needs: Sequence[Requirement]) -> tuple[bool, int]:
    """A key that sorts first what breaks an import, then what is nearest to a framework."""
    return all(map(is_optional, needs)), min(len(need.way) for need in needs)


def is_required(host: Host, name: str) -> bool:
    """Return whether a framework cannot be imported without this distribution, which is not installed."""
    return any(need.installed is None and not is_optional(need) for need in closure_of(host).of(name))
