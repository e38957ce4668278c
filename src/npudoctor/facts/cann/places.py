"""Where an installation of CANN may lie: what variables and install records name, and the known places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.devices import cann_info
from npudoctor.host.fs.files import Files

# The default of all installers for root.
ASCEND = "/usr/local/Ascend"
# The variables that name an installation, and what each adds to its path.
ENDINGS = {"ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": "", "ASCEND_OPP_PATH": "/opp"}
# Links to the newest release: `cann` from 8.5 on, where `latest` stays for old callers.
LATER = ("cann", "ascend-toolkit/latest", "nnae/latest", "nnrt/latest")
# Written by the .run packages, for root into /etc/Ascend, else into the user's home.
RECORD = "ascend_cann_install.info"

_RELEASE = pattern(r"\d+\.\d")


def named_root(name: str, value: str) -> str:
    """The installation that a variable names: its value without what that variable adds."""
    value, ending = value.rstrip("/"), ENDINGS[name]
    return value[: -len(ending)] if ending and value.endswith(ending) else value


def candidates(
    files: Files, variables: Mapping[str, str], home: str, more: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield every place to look at and the variable that names it ("" where none does), the one that a job
    would use first.

    `more`: other folders that may hold an Ascend folder. The folders of single releases come last: one other
    than `latest` is in use only when something names it.
    """
    for name in ENDINGS:
        if variables.get(name):
            yield named_root(name, variables[name]), name
    roots = parents(files, variables, home, more)
    for root in roots:
        yield from ((f"{root}/{later}", "") for later in LATER)
    yield from ((root, "") for root in roots)
    # The folders of single releases: cann-8.5.0, ascend-toolkit/8.1.RC1.
    for root in roots:
        for folder, begin in ((root, "cann-"), *((f"{root}/{kind}", "") for kind in cann_info.KINDS)):
            try:
                names = files.names(folder)
            except CannotTell:
                continue  # a closed one is noticed when its `latest` is looked at
            for name in names:
                if name.startswith(begin) and _RELEASE.match(name[len(begin) :]):
                    yield f"{folder}/{name}", ""


def parents(files: Files, variables: Mapping[str, str], home: str, more: Sequence[str] = ()) -> list[str]:
    """The folders that hold installations: those of install records, root's, the user's, conda's,
    and `more`.
    """
    folders = []
    for record, folder in (("/etc/Ascend", ASCEND), (f"{home}/Ascend", f"{home}/Ascend")):
        # What installers wrote into their record: Install_Path, of old Toolkit_InstallPath.
        settings = cann_info.parse_settings(cann_info.read_text(files, f"{record}/{RECORD}"))
        for key, value in settings.items():
            if key.replace("_", "").endswith("installpath"):
                folders.append(value.rstrip("/"))
        folders.append(folder)
    conda = variables.get("CONDA_PREFIX")
    if conda:
        folders.append(f"{conda}/Ascend")
    folders += [f"{place}/Ascend" for place in more]
    return list(dict.fromkeys(path for path in folders if path.startswith("/")))
