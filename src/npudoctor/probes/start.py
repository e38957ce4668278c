"""What stands before every probe: where it looks for modules, where it may write, and how it answers.

Nothing is imported here that Python has not loaded by itself: a json.py of the job would take the place of
the real one, and to load the real one first would hide that from the framework.
"""

import os
import sys

# Removed from sys.argv, so that the job's code sees the arguments of the probe alone.
PRIVATE, ANSWER = sys.argv.pop(1), sys.argv.pop(1)
# To tell a process that was forked by a module.
OWN = os.getpid()
# Bounds of the answer: frames of an exception, exceptions of a chain, characters of a message.
FRAMES, LINKS, LONGEST = 40, 8, 4000
if sys.path and not sys.path[0]:  # as a job that is started in this folder, and writes nothing to it
    try:
        sys.path[0] = os.getcwd()
    except OSError:  # the folder was removed
        del sys.path[0]
os.chdir(PRIVATE)
unreadable = {}  # type: "dict[int, str | None]"  # of an exception, by its id, the file of a module that could not be read


def encode(value: object) -> str:
    """A value as JSON in ASCII."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode(str(key))}: {encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(encode, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    return '"' + "".join(map(letter, str(value))) + '"'


def letter(character: str) -> str:
    """A character in a JSON string."""
    number = ord(character)
    if 32 <= number < 127 and character not in '"\\':
        return character
    # JSON escapes have 16 bits: others are a surrogate pair (RFC 8259).
    if number > 0xFFFF:
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"


def answer(words: "dict[str, object]") -> None:
    """Write one line of JSON for npudoctor, into a file: the modules may do to the output what they like.

    A process that a module forked also comes here, at its own end: its answer is dropped.
    """
    if os.getpid() != OWN:
        return
    with open(os.path.join(PRIVATE, ANSWER), "w", encoding="ascii") as file:
        file.write(encode(words) + "\n")


def watch(work: object) -> None:
    """Run the work; what it raises is written as the answer, and raised again."""
    try:
        work()  # type: ignore[operator]
    except BaseException as error:
        answer({"raised": chain(error)})
        raise


def chain(error: "BaseException | None") -> "list[dict[str, object]]":
    """The exception and those that it came from, the last one first."""
    links, visited = [], set()  # type: ignore[var-annotated]
    how = ""
    while error is not None and id(error) not in visited and len(links) < LINKS:
        visited.add(id(error))
        links.append(dict(describe(error), how=how))
        how = "cause" if error.__cause__ is not None else "context"
        # As the traceback module chooses between them.
        if error.__cause__ is not None or error.__suppress_context__:
            error = error.__cause__
        else:
            error = error.__context__
    return links


def describe(error: BaseException) -> "dict[str, object]":
    """One exception as data."""
    kind = type(error)
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # its own __str__ is broken
        message = ""
    path = (
        getattr(error, "path", None) if isinstance(error, ImportError) else getattr(error, "filename", None)
    )
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((file_of(trace.tb_frame), trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    # Python prints these without their module.
    own = kind.__module__ in ("builtins", "__main__")
    return {
        "type": kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}",
        # Without BaseException and object, which all have.
        "bases": [base.__name__ for base in kind.__mro__[:-2]],
        "message": (message or "")[:LONGEST],
        "name": text_of(getattr(error, "name", None)),
        "path": text_of(path),
        "line": getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None,
        "errno": getattr(error, "errno", None) if isinstance(error, OSError) else None,
        "unread": unreadable.get(id(error)),
        "frames": frames[-FRAMES:],
    }


def file_of(frame: object) -> str:
    """The file of a frame's code. Byte code that was compiled in another folder may have the name
    from there.
    """
    name = str(frame.f_code.co_filename)  # type: ignore[attr-defined]
    if name.startswith(("/", "<")):
        return name
    own = frame.f_globals.get("__file__")  # type: ignore[attr-defined]
    if isinstance(own, str) and own.startswith("/") and stem(own) == stem(name):
        return own
    return name


def stem(path: str) -> str:
    """The name of a file without what tells its kind."""
    return os.path.splitext(os.path.basename(path))[0]


def text_of(value: object) -> "str | None":
    """A name or a path; None for all else."""
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    return value if isinstance(value, str) else None
