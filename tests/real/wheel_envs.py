"""Environments into which real wheels are installed by `pip install --no-deps`, kept outside the checkout."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Optional, Union

from . import mindspore_env, wheels
from .mindspore_env import Unavailable, run
from .wheels import Foreign


@dataclass(frozen=True)
class Environment:
    """What is installed into one Python. `whole`: with all files, as far as they are not very big."""

    name: str
    python: str
    requirements: tuple[Union[str, Foreign], ...]
    whole: bool = False
    # What a later `pip install` puts over it.
    then: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it is."""
        return wheels.cache() / "environments" / self.name

    @property
    def program(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        return self.folder / "lib" / f"python{self.python}" / "site-packages"

    @property
    def stamp(self) -> Path:
        """Written last, so that an interrupted installation is never taken for a whole one."""
        return self.folder / "npudoctor-installed.txt"


def provide(environments: Iterable[Environment]) -> dict[str, Optional[Unavailable]]:
    """Make those that are not there or were made for other requirements; by name, why one cannot be had."""
    wheels.cache().mkdir(parents=True, exist_ok=True)
    with open(wheels.cache() / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        different = {one.name: one for one in environments}
        # The index is far: several at once wait for it at the same time.
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(different, pool.map(_provided, different.values())))


def _provided(environment: Environment) -> Optional[Unavailable]:
    stamp = environment.stamp
    try:
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != repr(environment):
            build(environment)
    except Unavailable as error:
        return error
    return None


def build(environment: Environment) -> None:
    """Make it anew."""
    shutil.rmtree(environment.folder, ignore_errors=True)
    made_of = mindspore_env.interpreter(environment.python)
    run("venv failed", made_of, "-m", "venv", "--without-pip", environment.folder)
    for foreign, group in groupby(environment.requirements, lambda one: isinstance(one, Foreign)):
        if foreign:
            for one in group:
                assert isinstance(one, Foreign)
                install_foreign(environment, one)
        else:
            install(environment, [str(one) for one in group])
    if environment.then:
        install(environment, environment.then)
    environment.stamp.write_text(repr(environment), encoding="utf-8")


def install(environment: Environment, requirements: Sequence[str]) -> None:
    """As a user does it: pip chooses the wheels that it takes for fit for this interpreter."""
    there = ["--python", str(environment.program)]
    urls = wheels.resolve(requirements, environment.python, there, [])
    put(environment, urls, there, [])


def install_foreign(environment: Environment, wanted: Foreign) -> None:
    """What gets there by way of an image for another machine, or a copied folder."""
    options = ["--target", str(environment.site), *wheels.foreign_tags(wanted, environment.python)]
    kind = f"{wanted.machine} {wanted.python or environment.python}"
    put(environment, wheels.resolve([wanted.requirement], kind, [], options), [], options)


def put(environment: Environment, urls: Sequence[str], there: Sequence[str], options: Sequence[str]) -> None:
    """Install these wheels, without their dependencies and without compiling."""
    with ThreadPoolExecutor(4) as pool:
        files = list(pool.map(lambda url: str(wheels.fetch(url, environment.whole)), urls))
    quick = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--only-binary=:all:"]
    command = [str(wheels.pip()), "-m", "pip", *there, "install", *quick, *options, *files]
    run(f"{environment.name} can not be installed", *command)
