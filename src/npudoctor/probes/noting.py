"""Notes what is loaded. Stands between `start` and a probe, unless that is tried once more, plainly.

Here Python's own ways are changed, so that a program that dies with these lines may do well without them.
"""

import _frozen_importlib_external as loaders
import os

LOADING = os.path.join(PRIVATE, ANSWER + ".loading")  # type: ignore[name-defined]  # noqa: F821  # loaded last


def note_unreadable(loader: type) -> None:
    """Note the file of a module that cannot be read: a traceback does not name it."""
    read = loader.get_code  # type: ignore[attr-defined]

    def get_code(self: object, name: str) -> object:
        try:
            return read(self, name)
        except BaseException as error:
            unreadable[id(error)] = text_of(getattr(self, "path", None))  # type: ignore[name-defined]  # noqa: F821
            raise

    loader.get_code = get_code  # type: ignore[attr-defined]


def note_loading(loader: type) -> None:
    """Note which extension module is being loaded: one that kills the process leaves no other trace."""
    create = loader.create_module  # type: ignore[attr-defined]

    def create_module(self: object, spec: object) -> object:
        try:
            if os.getpid() == OWN:  # type: ignore[name-defined]  # noqa: F821
                with open(LOADING, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(str(getattr(self, "path", "")))
        except OSError:  # the disk is full, or no file may be opened
            pass
        return create(self, spec)

    loader.create_module = create_module  # type: ignore[attr-defined]


note_unreadable(loaders.SourceFileLoader)
note_unreadable(loaders.SourcelessFileLoader)
note_loading(loaders.ExtensionFileLoader)
try:
    import faulthandler  # of C, so that no file of the job is taken for it

    faulthandler.enable()
    # Asked where it is when its time is over; no module takes the last but one of the real-time signals.
    faulthandler.register(63, all_threads=True)
except (ImportError, ValueError, OSError, RuntimeError, AttributeError):  # without stderr
    pass
