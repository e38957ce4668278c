"""Why an import failed, by the exception that ended it: what it is about, whose that is, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable, Optional

from npudoctor import Fix, Host, _
from npudoctor.checks.deep import _remedies as remedies
from npudoctor.checks.deep._cause_words import (
    Cause,
    deepest_frame,
    distinct_words,
    place_of,
    spot_of,
    user_of,
)
from npudoctor.checks.deep._loader_errors import explain_library
from npudoctor.core.frozen import replace
from npudoctor.core.lazy import pattern
from npudoctor.facts.job.tracebacks import Raised
from npudoctor.facts.python.owners import (
    distribution_below,
    is_byte_code_stale,
    is_replaced,
    owner_of,
    owner_of_module,
    path_of,
    shadowing_path,
)
from npudoctor.facts.system.limits import limit_of
from npudoctor.host import CannotTell
from npudoctor.host.python.installed_files import site_of

# Texts of CPython's importlib and of `from X import Y` (Python/ceval.c). The quotes are optional, because
# code that raises ImportError itself may leave them out.
_NO_MODULE = pattern(r"No module named '?(?P<module>[\w.]+)'?")
_NO_NAME = pattern(
    r"cannot import name '(?P<name>\w+)' from (?P<early>partially initialized module )?'(?P<module>[\w.]+)'"
)
_NO_ATTRIBUTE = pattern(
    r"(?P<early>partially initialized )?module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"
)
# CPython's texts for a source or byte code that is no Python: null bytes, a cut or foreign .pyc, a wrong
# encoding.
_DAMAGED = pattern(
    r"(?i)null bytes|marshal data too short|bad marshal data|bad magic number|codec can't decode"
    r"|source code string"
)
# Texts of NumPy's C API and of Cython, which compare what a module was built with against the NumPy that is
# installed.
_OTHER_NUMPY = pattern(
    r"compiled using NumPy 1|numpy\.dtype size changed|numpy\.u?func size changed|multiarray failed to import"
    r"|compiled against (?:API|ABI) version|umath failed to import|ndarray size changed"
)
# These two also appear when NumPy is missing altogether.
_NO_NUMPY = pattern(r"Numpy is not available|(?:multiarray|umath) failed to import")
# ENOMEM of mmap and clone, std::bad_alloc of C++, and CPython's RuntimeError of a thread that cannot start.
_ROOM = pattern(r"Cannot allocate memory|out of memory|bad_alloc|can't start new thread", re.IGNORECASE)

# protobuf 4 and later have no cpp implementation; the check protobuf-implementation judges the variable.
PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
_LIBRARY = pattern(r"/\S+\.so(?:\.[\d.]+)?\b")

Explainer = Callable[[Host, Raised], Optional[Cause]]


def cause_of(host: Host, chain: Sequence[Raised]) -> Optional[Cause]:
    """Return the cause of a chain of exceptions (the last one first), or None for an empty chain.

    An explicit cause (`raise ... from`) says more than the exception it led to. One that was merely being
    handled is preferred only if it is understood and the following one is not.
    """
    chosen: Optional[Cause] = None
    outer = ""
    for raised in chain:
        library_match = _LIBRARY.search(outer)
        if raised.path is None and library_match and raised.is_a("OSError"):  # of ctypes, which names no file
            raised = replace(raised, path=library_match[0])
        outer = raised.message
        cause = _judge_error(host, raised)
        if chosen is None or raised.how == "cause" or (cause.understood and not chosen.understood):
            chosen = cause
    return chosen


def _judge_error(host: Host, raised: Raised) -> Cause:
    for explain in _EXPLAINERS:
        cause = explain(host, raised)
        if cause is not None:
            return cause
    # Nothing above understands it: repeat the exception's own text, with the place where it occurred.
    user, owner = user_of(host, raised)
    spot = spot_of(host, raised)
    text = _("{error} (in {place})") if spot else "{error}"
    sentence = text.format(error=" ".join(raised.text.split())[:300], place=spot)
    words = distinct_words(place_of(raised).rpartition(":")[0], owner.name if owner else "")
    return Cause(sentence, raised, words, understood=False, owner=user if owner else None)


def _explain_missing_module(host: Host, raised: Raised) -> Optional[Cause]:
    match = _NO_MODULE.match(raised.message)
    if not raised.is_a("ModuleNotFoundError", "ImportError") or match is None:
        return None
    module = match["module"]
    top = module.partition(".")[0]
    shadowing_file = shadowing_path(host, module)
    # "No module named 'torch.nn'; 'torch' is not a package" is CPython's text if a file torch.py hides the
    # package.
    if shadowing_file is not None and (module != top or "not a package" in raised.message):
        return _explain_hiding(host, raised, shadowing_file, module)
    missing_cause = _explain_missing_file(host, raised, module)
    if missing_cause is not None:
        return missing_cause
    provider = distribution_below(host, top) if module != top else None
    user, owner = user_of(host, raised)
    if provider is not None and owner is not None and provider.folder == owner.folder:
        label = provider.label
        text = _("the files of {package} are inconsistent: it has no module {module}, which {place} imports")
        text = text.format(package=label, module=module, place=place_of(raised))
        return Cause(
            text,
            raised,
            distinct_words(module, provider.name),
            remedies.reinstall(host, provider),
            owner=label,
        )
    if provider is not None:
        text = _("{package} has no module {module}, which {user} imports")
        label = provider.label
        fix = remedies.install_compatible(host, provider, owner)
        words = distinct_words(module, provider.name)
        return Cause(text.format(package=label, module=module, user=user), raised, words, fix, owner=label)
    text = _("the module {module} is not installed; {user} imports it", module=module, user=user)
    return Cause(text, raised, distinct_words(module, top), remedies.install_provider(host, top, owner))


def _explain_missing_file(host: Host, raised: Raised, module: str) -> Optional[Cause]:
    """Return the cause if the module's file was installed and is now missing; None otherwise."""
    owner = owner_of_module(host, module)
    if owner is None:
        return None
    path = path_of(owner)
    entry = host.files.stat(path)
    text = _("{path} of {package} is missing")
    if entry is not None and entry.is_file:
        if module.partition(".")[0] != module or not raised.is_a("ModuleNotFoundError"):
            return None
        text = _("{path} of {package} exists, but this Python does not find it")
    text = text.format(path=path, package=owner.label)
    words = distinct_words(path, module, owner.distribution.name)
    fix = None if entry is not None and entry.is_file else remedies.reinstall(host, owner.distribution)
    return Cause(text, raised, words, fix, owner=owner.label)


def _explain_hiding(host: Host, raised: Raised, path: str, module: str) -> Cause:
    """Return the cause: a file of the job has the name of a module and is found first."""
    installed = owner_of_module(host, module.partition(".")[0]) or owner_of_module(host, module)
    name = installed.label if installed else _("the module {module}", module=module.partition(".")[0])
    text = _("{path} shadows {package}: {error}", path=path, package=name, error=raised.message)
    return Cause(
        text,
        raised,
        distinct_words(path, module),
        remedies.rename_file(path),
        owner=name if installed else None,
    )


def _explain_missing_name(host: Host, raised: Raised) -> Optional[Cause]:
    match = _NO_NAME.match(raised.message) if raised.is_a("ImportError") else None
    if match is None and raised.is_a("AttributeError"):
        match = _NO_ATTRIBUTE.match(raised.message)
    if match is None:
        return None
    module, name = match["module"], match["name"]
    shadowing_file = shadowing_path(host, module)
    if shadowing_file is not None and (raised.path is None or raised.path.startswith(shadowing_file)):
        return _explain_hiding(host, raised, shadowing_file, module)
    missing_cause = _explain_missing_file(host, raised, f"{module}.{name}")
    if missing_cause is not None:
        return missing_cause
    owner = owner_of(host, raised.path) or owner_of_module(host, module)
    user, consumer = user_of(host, raised)
    # "partially initialized module" is CPython's text for a circular import.
    if match["early"]:
        text = _("{user} needs {name} before {module} has defined it: the modules import each other")
        words = distinct_words(module, owner.distribution.name if owner else "")
        return Cause(text.format(module=module, name=name, user=place_of(raised) or user), raised, words)
    if owner is None:
        return None
    words = distinct_words(raised.path or path_of(owner), module, owner.distribution.name)
    is_own_module = consumer is not None and consumer.folder == owner.distribution.folder
    path = raised.path or path_of(owner)
    if is_byte_code_stale(host, path, name):
        text = _(
            "{path} of {package} has {name}, which {user} needs, but its byte code comes from another file"
        )
        fix = remedies.remove_byte_code(path)
    elif is_own_module:
        text = _("the files of {package} are inconsistent: {module} has no {name}, which {place} needs")
        fix = remedies.reinstall(host, owner.distribution)
    elif remedies.is_compatible(host, owner.distribution, consumer) and is_replaced(host, owner, path):
        text = _("{path} is not the file that {package} installed: it has no {name}, which {user} needs")
        fix = remedies.reinstall(host, owner.distribution)
    else:
        text = _("{package} has no {name} in {module}, which {user} needs")
        fix = remedies.install_compatible(host, owner.distribution, consumer)
    spot = {"path": path, "place": place_of(raised), "module": module, "name": name}
    text = text.format(package=owner.label, user=user, **spot)
    return Cause(text, raised, words, fix, owner=owner.label)


def _explain_protobuf(host: Host, raised: Raised) -> Optional[Cause]:
    """Return the cause if a variable requests an implementation that the installed protobuf does not have."""
    setting = host.variables.get(PROTOBUF)
    if not setting or "google.protobuf.pyext" not in raised.message:
        return None
    protobuf = host.interpreter.installed("protobuf")
    label = protobuf.label if protobuf else "protobuf"
    text = _("{variable}={value} requests an implementation that {package} does not have: {error}")
    text = text.format(variable=PROTOBUF, value=setting, package=label, error=raised.message)
    fix = remedies.manual_fix(_("unset {variable}", variable=PROTOBUF))
    return Cause(text, raised, distinct_words(PROTOBUF, "protobuf"), fix, owner=label)


def _explain_damaged_file(host: Host, raised: Raised) -> Optional[Cause]:
    """Return the cause if a source or its byte code cannot be read as Python."""
    syntax = raised.is_a("SyntaxError")
    unread = raised.is_a("EOFError", "ValueError", "ImportError") and _DAMAGED.search(raised.message)
    path = (raised.path if syntax else None) or raised.unread or (raised.path if unread else None)
    if path is None or not (syntax or unread):
        return None
    owner = owner_of(host, path)
    byte_code = bool(re.search("marshal|magic", raised.message))
    text = _("{path} of {package} is damaged: {error}")
    if byte_code and path.endswith(".py"):
        text = _("the byte code of {path} of {package} is damaged: {error}")
    if owner is None:
        text = _("this Python cannot read {path}: {error}")
    text = text.format(path=path, package=owner.label if owner else "", error=raised.message)
    fix = remedies.reinstall(host, owner.distribution) if owner else None
    if byte_code and path.endswith(".py"):
        fix = remedies.remove_byte_code(path)
    words = distinct_words(path, owner.distribution.name if owner else "")
    return Cause(text, raised, words, fix, owner=owner.label if owner else None)


def _explain_unreadable_file(host: Host, raised: Raised) -> Optional[Cause]:
    if not raised.is_a("OSError") or not raised.path:
        return None
    path = raised.path
    owner = owner_of(host, path)
    # str() of an OSError is "[Errno 2] TEXT: FILE"; the message names the file already.
    why = re.sub(r"\A\[Errno -?\d+\] ", "", raised.message).partition(": ")[0]
    text = _("{path} of {package} cannot be used: {error}") if owner else _("{path} cannot be used: {error}")
    text = text.format(path=path, package=owner.label if owner else "", error=why)
    missing = raised.is_a("FileNotFoundError") and owner is not None
    fix = remedies.reinstall(host, owner.distribution) if owner and missing else None
    words = distinct_words(path, owner.distribution.name if owner else "")
    return Cause(text, raised, words, fix, owner=owner.label if owner else None)


def _explain_no_room(host: Host, raised: Raised) -> Optional[Cause]:
    if not raised.is_a("MemoryError") and not (
        raised.is_a("OSError", "ImportError", "RuntimeError") and _ROOM.search(raised.message)
    ):
        return None
    # glibc's "cannot allocate memory in static TLS block" is not about memory: _explain_tls reads it.
    if "static TLS" in raised.message:
        return None
    user, _consumer = user_of(host, raised)
    text = _("{user} ran out of memory: {error}", user=user, error=raised.message or raised.type)
    text, fix = add_limits(host, text)
    return Cause(text, raised, ("ulimit -v", "ulimit -d"), fix)


def is_out_of_memory(text: str) -> bool:
    """Whether the text says that memory could not be allocated."""
    return bool(_ROOM.search(text))


def add_limits(host: Host, text: str) -> tuple[str, Optional[Fix]]:
    """Return the text with the job's memory limits (ulimit -v, -d) added, and a fix that raises one if
    set."""
    fix: Optional[Fix] = None
    for name, command in (("Max address space", "ulimit -v"), ("Max data size", "ulimit -d")):
        try:
            soft = limit_of(host, name).soft
        except CannotTell:
            # A limit that cannot be read is left out of the sentence.
            continue
        if soft is not None:
            text = _(
                "{text} (the limit {command} is {size} MiB)", text=text, command=command, size=soft >> 20
            )
            fix = fix or remedies.manual_fix(_("raise the limit: {command} unlimited", command=command))
    return text, fix


def _explain_warning(host: Host, raised: Raised) -> Optional[Cause]:
    """Return the cause if PYTHONWARNINGS or -W turns a warning into an exception."""
    if not raised.is_a("Warning"):
        return None
    user, _consumer = user_of(host, raised)
    setting = host.variables.get("PYTHONWARNINGS", "")
    text = _("a warning from {user} is turned into an error: {error}", user=user, error=raised.text)
    if not setting:
        return Cause(text, raised, distinct_words("PYTHONWARNINGS"))
    text = _("PYTHONWARNINGS={value} turns a warning from {user} into an error: {error}")
    text = text.format(value=setting, user=user, error=raised.text)
    fix = remedies.manual_fix(_("unset PYTHONWARNINGS, or let it ignore {type}", type=raised.type))
    return Cause(text, raised, distinct_words("PYTHONWARNINGS"), fix)


def _explain_no_numpy(host: Host, raised: Raised) -> Optional[Cause]:
    """Return the cause if NumPy is missing: its users report an interface that they could not get."""
    if not _NO_NUMPY.search(raised.message):
        return None
    numpy = host.interpreter.installed("numpy")
    path = f"{site_of(numpy)}/numpy/__init__.py" if numpy is not None else ""
    user, owner = user_of(host, raised)
    if numpy is None:
        text = _("the module {module} is not installed; {user} imports it", module="numpy", user=user)
        return Cause(text, raised, distinct_words("numpy"), remedies.install_provider(host, "numpy", owner))
    if numpy.folder.endswith("/numpy") or host.files.stat(path) is not None:
        return None
    label = numpy.label
    text = _("{path} of {package} is missing; {user} needs it", path=path, package=label, user=user)
    return Cause(text, raised, distinct_words(path, "numpy"), remedies.reinstall(host, numpy), owner=label)


def _explain_other_numpy(host: Host, raised: Raised) -> Optional[Cause]:
    if not _OTHER_NUMPY.search(raised.message):
        return None
    numpy = host.interpreter.installed("numpy")
    user, owner = user_of(host, raised)
    if numpy is None or (owner is not None and owner.folder == numpy.folder):
        return None
    label = numpy.label
    if not raised.frames or not deepest_frame(raised.frames):
        user = _("an extension module")
    error = raised.message.splitlines()[0]
    fix = remedies.install_compatible(host, numpy, owner)
    return Cause(
        _(
            "{user} was built for a release other than the installed {numpy}: {error}",
            user=user,
            numpy=label,
            error=error,
        ),
        raised,
        distinct_words("numpy"),
        fix,
        owner=label,
    )


_EXPLAINERS: tuple[Explainer, ...] = (
    _explain_warning,
    _explain_no_room,
    _explain_no_numpy,
    _explain_other_numpy,
    _explain_protobuf,
    _explain_missing_module,
    _explain_missing_name,
    explain_library,
    _explain_damaged_file,
    _explain_unreadable_file,
)
