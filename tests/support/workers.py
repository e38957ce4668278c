"""How the workers of pytest-xdist share the tests: what stays in one process, which worker takes it, what
begins first, and what of the machine each worker has for itself."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# They make real segments, sockets and processes and then judge all that the machine has: two at a time would
# meet, unless each is in namespaces of its own.
MACHINE = tuple(f"tests/{folder}/" for folder in ("checks/leftovers", "fixing", "proof", "torture"))
# Each test has namespaces of its own, and mostly waits for servers and clients.
BY_TEST = ("tests/real/test_real_mindspore.py", "tests/rehearsal/test_faults.py")
# They ask for the same reports.
TOGETHER = ("tests/scenarios/test_faults.py", "tests/scenarios/test_remedies.py")
# What is proven only in the pid namespace of the machine itself: for the one worker that is in it.
FIRST_NAMESPACE = (
    *(
        f"tests/checks/leftovers/test_{name}_real.py"
        for name in ("shared_files", "stale_processes", "temp_files")
    ),
    "tests/proof/test_stale.py",
)
# Seconds that whole files take on two cores; of those which are not here, a test in the folders below.
FILES = {
    "machine": 130,
    "tests/fleet/test_cluster.py": 70,
    "tests/test_packaging.py": 53,
    "tests/tools/test_one_file.py": 50,
    "tests/cli/test_explain_frozen.py": 47,
    "tests/cli/test_snapshot.py": 47,
    "tests/fleet/test_slurm.py": 42,
    "tests/scenarios/test_faults.py": 42,
    "tests/cli/test_run_ranks.py": 40,
    "tests/starts/test_starts.py": 37,
    "tests/real/test_real_users.py": 37,
    "tests/integrations/test_slurm.py": 37,
    "tests/cli/test_frozen.py": 36,
    "tests/cli/test_usage.py": 36,
    "tests/tools/test_packages.py": 35,
    "tests/checks/deep/test_framework_imports.py": 34,
    "tests/cli/test_odd_surroundings.py": 33,
    "tests/environment/test_scenarios.py": 32,
    "tests/checks/network/test_firewall_real.py": 27,
    "tests/explain/test_engines.py": 27,
    "tests/tools/test_bare_install.py": 26,
    "tests/tools/test_new_check.py": 28,
    "tests/rehearsal/test_picture.py": 19,
    "tests/cli/test_deep.py": 26,
    "tests/tools/test_site.py": 24,
    "tests/checks/network/test_firewall_mended.py": 23,
    "tests/real/test_real_shells.py": 21,
    "tests/checks/cann/test_te_mended.py": 18,
    "tests/core/test_redact.py": 18,
    "tests/core/test_messages.py": 16,
    "tests/explain/test_bounds.py": 15,
}
FOLDERS = {"tests/real/": 20.0, "tests/rehearsal/": 1.5, "tests/cli/": 0.5}
OTHERS = 0.05
NAMESPACES = (
    *("unshare", "--ipc", "--pid", "--fork", "--kill-child"),
    *("--mount", "--propagation", "private", "--mount-proc"),
)
# As pid 1 a shell buries orphans, which a worker of pytest would not. What is written below these two folders
# names processes, and those of another worker have the same pids.
INIT = """
for folder in /var/lib/npudoctor /run/npudoctor; do
    mkdir -p -m 700 $folder && mount -t tmpfs -o mode=700 tmpfs $folder || exit 1
done
"$@"
exit $?
"""


def apart(command: list[str]) -> list[str]:
    """A command as it is started in namespaces of its own."""
    return [*NAMESPACES, "sh", "-c", INIT, "sh", *command]


def set_apart(config: pytest.Config) -> bool:
    """Let all workers but the first have namespaces of their own; False where that is not permitted, as to
    ordinary users and in many containers."""
    specs = config.option.tx or []
    if os.geteuid() != 0 or len(specs) < 2 or set(specs) != {"popen"}:
        return False
    try:
        subprocess.run(apart(["true"]), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    config.option.tx = ["popen", *[f"popen//python={shlex.join(apart([sys.executable]))}"] * (len(specs) - 1)]
    return True


def report_less(config: pytest.Config) -> None:
    """Do not send that a test was set up, and taken down, well: the first process would unpack these two of
    three reports of each test, and do nothing with them but add their times up, where that is asked for."""
    if config.option.xmlpath or config.option.durations:
        return
    plugins = config.pluginmanager.get_plugins()
    worker = next((plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor"), None)
    if worker is None:  # xdist has another name for it
        return
    send = worker.sendevent

    def send_what_counts(name: str, **values: Any) -> None:
        report = values.get("data", {}) if name == "testreport" else {}
        if report.get("outcome") != "passed" or report.get("when") == "call":
            send(name, **values)

    worker.sendevent = send_what_counts


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """A file stays in one process, as fixtures of modules are made once.

    Not by marks for groups (`--dist loadgroup`): xdist 3.8 hands them on in a name that pytest 9.2 does not
    have any more, and then no test has a group.
    """

    def __init__(self, config: pytest.Config, log: Any, workers_apart: bool) -> None:
        config.option.loadscopereorder = False  # it would sort by how many tests there are in a file
        super().__init__(config, log)
        self._apart = workers_apart
        self._indexes: dict[Any, dict[str, int]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, self._apart)

    def schedule(self) -> None:
        if self._apart and self.collection is None:
            # Of more workers than files the last ones are ended: not the only one that may take a file.
            scopes = {
                self._split_scope(nodeid)
                for names in self.registered_collections.values()
                for nodeid in names
            }
            away = all(for_workers_apart(scope) for scope in scopes)
            for node in sorted(self.nodes, key=lambda node: is_apart(node) != away):
                self.assigned_work[node] = self.assigned_work.pop(node)
        super().schedule()

    def _suits(self, node: Any, scope: str) -> bool:
        if not self._apart:
            return True
        if scope.startswith(FIRST_NAMESPACE):
            return not is_apart(node)
        return is_apart(node) or not for_workers_apart(scope)

    def _assign_work_unit(self, node: Any) -> None:
        scope = next((name for name in self.workqueue if self._suits(node, name)), None)
        if scope is None:
            node.shutdown()
            return
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, OrderedDict())[scope] = unit
        if node not in self._indexes:  # fourteen thousand searches in a list of as many took seconds
            names = self.registered_collections[node]
            self._indexes[node] = {nodeid: number for number, nodeid in enumerate(names)}
        indexes = self._indexes[node]
        node.send_runtest_some([indexes[nodeid] for nodeid, is_done in unit.items() if not is_done])


def is_apart(node: Any) -> bool:
    """Whether a worker was started in namespaces of its own."""
    return bool(node.gateway.spec.python)


def for_workers_apart(scope: str) -> bool:
    """Whether these tests judge a whole machine, in any pid namespace."""
    return scope.startswith(MACHINE) and not scope.startswith(FIRST_NAMESPACE)


def scope_of(nodeid: str, workers_apart: bool) -> str:
    """What of the tests stays in one process."""
    path = nodeid.partition("::")[0]
    if path.startswith(MACHINE) and not workers_apart:
        return "machine"
    return nodeid if path in BY_TEST else TOGETHER[0] if path in TOGETHER else path


def longest_first(items: list[pytest.Item], workers_apart: bool) -> None:
    """What takes longest begins first: else one process works alone in the end."""
    seconds: dict[str, float] = {}
    for item in items:
        scope = scope_of(item.nodeid, workers_apart)
        a_test = next((value for begin, value in FOLDERS.items() if scope.startswith(begin)), OTHERS)
        seconds[scope] = FILES[scope] if scope in FILES else seconds.get(scope, 0.0) + a_test
    # By name where two are alike: all processes must have the same order.
    items.sort(
        key=lambda item: (
            -seconds[scope_of(item.nodeid, workers_apart)],
            scope_of(item.nodeid, workers_apart),
        )
    )
