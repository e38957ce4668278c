"""What to do about a failed import, where its exception tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor import Fix, Host, Risk, _
from npudoctor.checks.python._pip import pip_install, pip_reinstall
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.requirements import read_requirement

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# Modules of which the distribution has another name.
_BRINGS = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "google": "protobuf",
    "sklearn": "scikit-learn",
    "attr": "attrs",
    "dateutil": "python-dateutil",
    "absl": "absl-py",
    "pkg_resources": "setuptools",
    "distutils": "setuptools",
    "skimage": "scikit-image",
    "past": "future",
}


def manual_fix(title: str) -> Fix:
    """Return a fix without a command: the title says what to do."""
    return Fix(title, steps=(), risk=Risk.MANUAL, needs_root=False)


def reinstall(host: Host, copy: Distribution) -> Fix:
    """Return the line that installs the same release again over the existing files."""
    fix: Fix = pip_reinstall(host, _("reinstall {name}", name=copy.label), copy.requirement)
    return fix


def install_compatible(host: Host, copy: Distribution, user: Optional[Distribution]) -> Fix:
    """Return the line that installs the release which `user` requires; a sentence if it requires none, or if
    the installed one already meets it."""
    # Not at the top of the file: `packaging.version` takes about 10 ms to import, and most runs compare no
    # version here.
    from packaging.version import InvalidVersion

    name = copy.label
    specifier = _read_requirement(host, user, copy.name) if user else None
    try:
        if user and specifier and not specifier.contains(copy.version, prereleases=True):
            title = _("install the {name} that {user} requires", name=copy.name, user=user.name)
            fix: Fix = pip_install(host, title, f"{normalize_name(copy.name)}{specifier}")
            return fix
    except InvalidVersion:
        # A version that PEP 440 does not know cannot be compared: fall through to the sentence.
        pass
    if user is None:
        return manual_fix(_("install a release of {name} that has it", name=copy.name))
    return manual_fix(_("install compatible releases of {user} and {name}", user=user.label, name=name))


def is_compatible(host: Host, copy: Distribution, user: Optional[Distribution]) -> bool:
    """Whether `user` names releases of `copy` in its metadata and the installed one is among them."""
    from packaging.version import InvalidVersion

    specifier = _read_requirement(host, user, copy.name) if user else None
    try:
        return specifier is not None and specifier.contains(copy.version, prereleases=True)
    except InvalidVersion:
        return False


def install_provider(host: Host, module: str, user: Optional[Distribution]) -> Fix:
    """Return the line that installs the package which contains the module, in the release that `user`
    requires."""
    name = _BRINGS.get(module, module)
    specifier = _read_requirement(host, user, name) if user else None
    if specifier is None and name == module:
        copy = host.interpreter.installed(name)
        if copy is not None:  # a part of it is gone
            return reinstall(host, copy)
        return manual_fix(
            _(
                "in {python}, install the package that provides the module {module}",
                module=module,
                python=host.interpreter.path,
            )
        )
    fix: Fix = pip_install(host, _("install {name}", name=name), f"{normalize_name(name)}{specifier or ''}")
    return fix


def _read_requirement(host: Host, user: Distribution, name: str) -> Optional[SpecifierSet]:
    try:
        return read_requirement(user, name, host.interpreter.layout())
    except CannotTell:
        # Unreadable metadata: the remedy then names no release.
        return None


def rename_file(path: str) -> Fix:
    """Return the fix for a file of the job that hides a module."""
    return manual_fix(_("rename {path}, or start the job from another folder", path=path))


def remove_byte_code(path: str) -> Fix:
    """Return the fix for wrong byte code: remove it, Python compiles the source again."""
    folder = path.rpartition("/")[0]
    return manual_fix(_("remove {folder}/__pycache__: Python recreates it", folder=folder))
