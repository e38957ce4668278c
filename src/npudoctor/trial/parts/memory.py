"""Memory as a framework takes it in its first minute: address space, pages, locked pages, executable ones."""

import os
import sys

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end, one_at_a_time

MIB = 1 << 20
LARGEST = 256 * MIB
# From <sys/mman.h>; the same on x86_64 and aarch64.
PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4
MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE = 2, 0x20, 0x4000
PAGE = 4096


def try_memory() -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.sbrk.restype = ctypes.c_void_p
    libc.sbrk.argtypes = [ctypes.c_long]
    failed = ctypes.c_void_p(-1).value

    def map_memory(size: int, protection: int, flags: int, descriptor: int = -1) -> int:
        place = libc.mmap(None, size, protection, flags, descriptor, 0)
        if place == failed:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(place)

    reserve = QUESTIONS["reserve"]
    with attempt("reserve", bytes=reserve):
        # MAP_NORESERVE with PROT_NONE takes no memory: only RLIMIT_AS and overcommit mode 2 refuse it.
        libc.munmap(map_memory(reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), reserve)
    with attempt("grow", bytes=16 * MIB):
        # malloc grows the heap by brk, which RLIMIT_DATA limits apart from mmap.
        if libc.sbrk(16 * MIB) == failed:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        libc.sbrk(-16 * MIB)
    if QUESTIONS["touch"]:
        with attempt("touch", bytes=LARGEST):
            place = map_memory(LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)
            # Huge pages where the kernel has some: 65,536 small ones take 60 ms.
            # 14 is MADV_HUGEPAGE.
            libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(LARGEST), 14)
            memory = (ctypes.c_char * LARGEST).from_address(place)
            for offset in range(0, LARGEST, PAGE):
                memory[offset] = b"x"
            libc.munmap(place, LARGEST)
    with attempt("lock", bytes=64 * 1024):
        place = map_memory(64 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)
        # RDMA and pinned memory for copies to a device lock pages.
        if libc.mlock(place, 64 * 1024):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        libc.munmap(place, 64 * 1024)
    # As the loader maps a library.
    with open("/proc/self/maps") as file:
        executable = [line.rstrip("\n").split(None, 5)[5:] for line in file if "x" in line.split()[1]]
    # A path may hold blanks, and be gone since.
    libraries = [
        words[0] for words in executable if words and "/lib" in words[0] and os.path.exists(words[0])
    ]
    library = (libraries or [sys.executable])[0]
    with attempt("execute", path=library):
        descriptor = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc.munmap(map_memory(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, descriptor), PAGE)
        finally:
            os.close(descriptor)


with one_at_a_time("memory"), attempt("ctypes"):
    try_memory()
end()
