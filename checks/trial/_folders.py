"""The folders in which a job makes files in its first minute, besides the temporary one."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import Host
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job.working_directory import job_user, working_directory
from npudoctor.host.users.accounts import home_of
from npudoctor.host.users.identity import Identity

MINDSPORE = ("mindspore", "mindspore-ascend", "mindspore-gpu")
# Frameworks other than MindSpore that start ranks by a launcher of their own.
OTHER_FRAMEWORKS = ("torch", "paddlepaddle", "paddlepaddle-gpu")
# The variables of getpass.getuser(), whose result names the folder of torch's compiled code.
NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
# torch/_inductor replaces the same characters of the user's name in its default cache folder.
_NO_FILE_NAME = pattern(r'[\\/:*?"<>|]')


@dataclass(frozen=True)
class OutputFolder:
    """A folder that a job writes to. `name`: what is written there, or the variable that names it. `path`: a
    relative one is below the temporary folder. `makes`: the job creates it if it is missing. `locks`: the job
    locks files in it."""

    name: str
    path: str
    makes: bool = True
    locks: bool = False


def job_identity(host: Host) -> Identity:
    """Return the user who runs the job: the one of --as-user if root named one, else the job's own."""
    account = host.options.as_user
    if account is None or host.options.env_of:
        return job_user(host)
    return Identity(
        account.uid, account.name, account.home, frozenset(), frozenset((account.gid, *account.groups))
    )


def writer(host: Host) -> str:
    """Return the name of the user who runs the job."""
    return job_identity(host).user


def job_home(host: Host) -> str:
    """Return the home of the job, "" if it has none: HOME, unless that is root's own and --as-user names
    another user."""
    value = host.variables.get("HOME", "")
    if host.options.as_user is None or host.options.env_of:
        return value
    return job_identity(host).home if value in ("", home_of(host.files, host.identity.euid)) else value


def output_folders(host: Host) -> Iterator[OutputFolder]:
    """Yield the folders that the installed frameworks and the variables lead to, the most general first."""
    start_folder = working_directory(host)
    if start_folder is not None:
        yield OutputFolder("working directory", start_folder, makes=False)
    home_path = job_home(host).rstrip("/")
    if home_path.startswith("/"):
        yield OutputFolder("HOME", home_path, makes=False, locks=True)
    for folder in (*_torch_folders(host, home_path), *_ascend_folders(host, home_path, start_folder)):
        if folder.path.startswith("/") or folder.name == "TORCHINDUCTOR_CACHE_DIR":
            yield folder


def _torch_folders(host: Host, home_path: str) -> Iterator[OutputFolder]:
    variables = host.variables
    if is_installed(host, "torch"):
        name = "TORCHINDUCTOR_CACHE_DIR"
        user = next((variables[other] for other in NAMES if variables.get(other)), writer(host))
        usual_name = f"torchinductor_{_NO_FILE_NAME.sub('_', user)}"
        yield OutputFolder(name, variables.get(name) or usual_name, locks=True)
        yield OutputFolder(
            "XDG_CACHE_HOME", variables.get("XDG_CACHE_HOME") or f"{home_path}/.cache", locks=True
        )
    if is_installed(host, "triton", "triton-ascend"):
        name = "TRITON_CACHE_DIR"
        usual_name = f"{variables.get('TRITON_HOME') or home_path}/.triton/cache"
        yield OutputFolder(name, variables.get(name) or usual_name, locks=True)


def _ascend_folders(host: Host, home_path: str, start_folder: object) -> Iterator[OutputFolder]:
    variables, has_mindspore = host.variables, is_installed(host, *MINDSPORE)
    has_cann = bool(installs_of(host))
    name = "MS_COMPILER_CACHE_PATH"
    if has_mindspore and variables.get(name):
        yield OutputFolder(name, variables[name], locks=True)
    elif (has_mindspore or has_cann) and start_folder is not None:
        # Without the variable MindSpore and CANN compile to kernel_meta in the working directory.
        yield OutputFolder("kernel_meta", f"{str(start_folder).rstrip('/')}/kernel_meta", locks=True)
    log = _first_set(host, "ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH")
    if log or has_cann:
        yield OutputFolder(log or "CANN log", variables[log] if log else f"{home_path}/ascend/log")
    cache = _first_set(host, "ACL_OP_COMPILER_CACHE_DIR", "ASCEND_CACHE_PATH")
    if cache or has_cann:
        path = variables[cache] if cache else f"{home_path}/atc_data"
        # CANN does not create the folder of ASCEND_CACHE_PATH.
        yield OutputFolder(cache or "atc_data", path, makes=cache != "ASCEND_CACHE_PATH", locks=True)


def _first_set(host: Host, *names: str) -> str:
    return next((name for name in names if host.variables.get(name)), "")


def has_framework(host: Host) -> bool:
    """Whether a framework is installed: then its launcher starts the ranks, else multiprocessing does."""
    return is_installed(host, *MINDSPORE, *OTHER_FRAMEWORKS)


def is_msrun_job(host: Host) -> bool:
    """Whether MindSpore is the only framework: its launcher writes logs to the working directory."""
    return is_installed(host, *MINDSPORE) and not is_installed(host, *OTHER_FRAMEWORKS)


def is_installed(host: Host, *names: str) -> bool:
    """Whether the job's Python has one of these distributions; False if it cannot be examined."""
    try:
        return any(host.interpreter.installed(name) for name in names)
    except CannotTell:
        # Unknown is taken for not installed: the trial then has fewer folders and milder findings.
        return False
