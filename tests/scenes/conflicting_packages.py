"""conflicting-packages: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.conflicting_packages import conflicting_packages as check
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files

USER = "/root/.local/lib/python3.11/site-packages"
ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00" + bytes(44)


def scene(tmp: Path) -> Iterator[Asked]:
    """No framework; two flavours; two copies, in two folders and in one; another machine; another Python."""
    yield ask(check, fake_host())
    yield ask(check, fake_host(packages={"mindspore": "1.9.0", "mindspore-ascend": "1.10.1"}))
    files: dict[str, Content] = {
        **package_files("torch", "2.7.1", site=USER),
        **package_files("torch", "2.1.0"),
        **package_files("numpy", "1.26.4"),
        **package_files("numpy", "1.26.3"),
        f"{USER}/torch/_C.so": ARM,
        f"{SITE}/numpy/core/_multiarray_umath.cpython-37m-x86_64-linux-gnu.so": ARM,
    }
    yield ask(check, fake_host(files, search_path=(USER, SITE)))
    dynload, end = "/usr/lib/python3.11/lib-dynload", "cpython-311-x86_64-linux"
    musl: dict[str, Content] = {
        **package_files("numpy", "2.2.6"),
        f"{dynload}/math.{end}-gnu.so": ARM,
        f"{SITE}/numpy/_core/_multiarray_umath.{end}-musl.so": ARM,
    }
    yield ask(check, fake_host(musl, search_path=(dynload, SITE)))
