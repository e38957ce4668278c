"""The question by which an interpreter tells its layout, and the error for one that does not answer."""

from __future__ import annotations

import signal

from npudoctor.core.errors import CannotTell, DoesNotRun
from npudoctor.core.messages import _
from npudoctor.host.process.commands import CommandResult

# Asked with -I: neither the working directory nor PYTHONPATH reaches the interpreter while we ask;
# the folders that the job would see in front are added by us afterwards.
# Nothing is imported that the interpreter has not loaded by itself: the question costs its start.
# How it ends that would end so for the job, too: an error of its own, or a crash. Not one of SIGKILL. For
# root, who starts it without LD_LIBRARY_PATH, a library that the loader does not find proves nothing.
FAILED = (*range(1, 256), -signal.SIGILL, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGSEGV)
NOT_LOADED = 127
_THREADS = "\nCurrent thread 0x"
MARK = "NPUDOCTOR\0"
# Between the search path and the modules that are compiled into the program, which are no files.
BUILT_IN_MARK = "\0BUILT-IN\0"
QUESTION = (
    "import os,site,sys;"
    "told=[sys.version.split()[0],os.uname()[4],sys.prefix,sys.base_prefix,site.getusersitepackages()];"
    "told+=[entry for entry in sys.path if isinstance(entry,str)]+['BUILT-IN',*sys.builtin_module_names];"
    "os.write(1,b'NPUDOCTOR\\0'+b'\\0'.join(os.fsencode(str(word)) for word in told))"
)
# Of root, with -I -S besides: then nothing is loaded but from its standard library, and of that as little.
# What the other question learns of folders for packages is read.
ROOTS_QUESTION = (
    "import posix,sys;"
    "told=[sys.version.split()[0],posix.uname()[4],sys.prefix,sys.base_prefix,'']+sys.path;"
    "told+=['BUILT-IN',*sys.builtin_module_names];"
    "posix.write(1,b'NPUDOCTOR\\0'+b'\\0'.join(word.encode(sys.getfilesystemencoding(),'surrogateescape')"
    " for word in told if isinstance(word,str)))"
)


def make_no_answer_error(path: str, result: CommandResult, as_root: bool) -> CannotTell:
    """The error for an interpreter that did not answer: DoesNotRun if it fails for the job, too."""
    # What it died of; where its threads then were tells nobody anything.
    lines = result.stderr.partition(_THREADS)[0].strip().splitlines()
    # CPython says where it was below what it died of, as "<no Python frame>".
    last_line = next((line for line in reversed(lines) if "Error" in line), "".join(lines[-1:]))
    reason = _("the interpreter {path} does not answer: {why}", path=path, why=last_line or result.ended)
    is_conclusive = not as_root or result.status != NOT_LOADED
    if is_conclusive and (
        result.ended == "missing" or (result.ended == "exited" and result.status in FAILED)
    ):
        return DoesNotRun(reason, result.status or 0, last_line)
    return CannotTell(reason)
