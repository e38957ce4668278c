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


def by_hand(title: str) -> Fix:
    """A sentence."""
    return Fix(title, steps=(), risk=Risk.MANUAL, needs_root=False)


def reinstall(host: Host, copy: Distribution) -> Fix:
    """The same release once more, over what is there."""
    fix: Fix = pip_reinstall(host, _("reinstall {name}", name=copy.label), copy.requirement)
    return fix


def install_suiting(host: Host, copy: Distribution, user: Optional[Distribution]) -> Fix:
    """The release that who uses it asks for; a sentence where it asks for none, or has it."""
    from packaging.version import InvalidVersion

    name = copy.label
    specifier = _read_requirement(host, user, copy.name) if user else None
    try:
        if user and specifier and not specifier.contains(copy.version, prereleases=True):
            title = _("install the {name} that {user} requires", name=copy.name, user=user.name)
            fix: Fix = pip_install(host, title, f"{normalize_name(copy.name)}{specifier}")
            return fix
    except InvalidVersion:
        pass
    if user is None:
        return by_hand(_("install a release of {name} that has it", name=copy.name))
    return by_hand(_("install compatible releases of {user} and {name}", user=user.label, name=name))


def suits(host: Host, copy: Distribution, user: Optional[Distribution]) -> bool:
    """Whether its user asks for releases, and it is one of them."""
    from packaging.version import InvalidVersion

    specifier = _read_requirement(host, user, copy.name) if user else None
    try:
        return specifier is not None and specifier.contains(copy.version, prereleases=True)
    except InvalidVersion:
        return False


def install_provider(host: Host, module: str, user: Optional[Distribution]) -> Fix:
    """What brings a module that is not there, in the release that its user asks for."""
    name = _BRINGS.get(module, module)
    specifier = _read_requirement(host, user, name) if user else None
    if specifier is None and name == module:
        return by_hand(
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
        return None


def rename(path: str) -> Fix:
    """Of a file of the job's own."""
    return by_hand(_("rename {path}, or start the job from another folder", path=path))


def remove_byte_code(path: str) -> Fix:
    """Python writes byte code once more where there is none."""
    folder = path.rpartition("/")[0]
    return by_hand(_("remove {folder}/__pycache__: Python recreates it", folder=folder))
