"""Usage errors: status 64, one clear line on standard error, nothing on standard output."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command import Done, Npudoctor

MISUSES = {
    ("chek",): "no such command: chek; did you mean check?",
    ("",): "no such command",
    ("--nope",): "no such option: --nope",
    ("check", "--formt", "json"): "no such option: --formt; did you mean --format?",
    ("check", "-x"): "no such option: -x",
    ("check", "--version"): "no such option: --version",
    ("check", "--scope"): "the option --scope needs a value",
    ("check", "--verbose=1"): "the option --verbose takes no value",
    ("check", "--format", "xml"): "--format: 'xml' is not one of text, json",
    ("check", "--scope", "nodes"): "--scope: 'nodes' is not one of all, node, job",
    ("check", "--expect", "cpu"): "--expect:",
    ("check", "--profile", "slow"): "--profile:",
    ("check", "--fail-on", "info"): "--fail-on: 'info' is not one of error, warning",
    ("check", "--lang", "fr"): "--lang: 'fr' is not one of en, zh",
    ("--lang", "fr", "list"): "--lang: 'fr'",
    ("list", "--lang", "fr"): "--lang: 'fr'",
    ("list", "--format", "yaml"): "--format: 'yaml'",
    ("history", "-n", "0"): "-n: '0' is not a positive whole number",
    ("history", "-n", "many"): "-n: 'many' is not a positive whole number",
    ("history", "--number="): "-n: '' is not a positive whole number",
    ("history", "no-run"): "no such run: no-run",
    ("history", "--nubmer", "1"): "did you mean --number?",
    ("list", "more"): "unexpected argument: more",
    ("check", "--deadline", "soon"): "--deadline: 'soon' is not a number of seconds",
    ("check", "--deadline", "0"): "--deadline:",
    ("check", "--deadline", "-3"): "--deadline:",
    ("check", "--deadline", "inf"): "--deadline:",
    ("check", "--timeout", "nan"): "--timeout:",
    ("check", "--timeout", "1e300"): "--timeout:",
    ("check", "-v", "-q"): "-v and -q",
    ("check", "scipy"): "no such check, group, tag or code: scipy; did you mean scipy-version?",
    ("check", "CLOCK"): "no such check, group, tag or code: CLOCK; did you mean clock?",
    ("show", "scipy"): "no such check or code: scipy; did you mean scipy-version?",
    ("fix", "scipy"): "did you mean scipy-version?",
    ("check", "--ignore", "firewalls=known"): "no such check or code: firewalls; did you mean firewall?",
    ("explain", "E9999X"): "E9999X: not a file, a folder or a known code; did you mean EZ9999",
    ("explain", "scipy-version"): "; it is a check: npudoctor show scipy-version",
    ("explain", "scipy-version.unsuitabl"): "; did you mean scipy-version.unsuitable?",
    ("check", "hcl-ports"): "no such check, group, tag or code: hcl-ports; did you mean hccl-ports?",
    ("check", "cache-server.orphan-segmant"): "did you mean cache-server.orphan-segment?",
    ("check", ""): "no such check",
    (
        "check",
        "--ignore",
        "cache-sever",
    ): "--ignore: no such check or code: cache-sever; did you mean cache-server?",
    ("check", "--ignore", "leftovers"): "--ignore: leftovers is a group: a check or a code is required",
    ("check", "--ignore", "nvidia"): "--ignore: nvidia is a tag: a check or a code is required",
    ("show", "leftovers"): "npudoctor: leftovers is a group: a check or a code is required",
    ("fix", "leftovers"): "npudoctor: leftovers is a group: a check or a code is required",
    ("schema", "--lang", "fr"): "--lang: 'fr'",
    ("check", "--ignore", ""): "--ignore: no such check or code",
    ("check", "--python", "/no/python3"): "--python: /no/python3 does not exist",
    ("check", "--python", "/usr"): "--python: /usr is not a regular file",
    ("check", "--python", ""): "--python: '' is not a path",
    ("check", "--root", "/no/image"): "--root: /no/image does not exist",
    ("check", "--root", "/etc/passwd"): "--root: /etc/passwd is not a directory",
    ("check", "--root", ""): "--root",
    ("check", "--config", "/no/config.toml"): "--config: /no/config.toml does not exist",
    ("check", "--config", "/etc"): "/etc is not a regular file",
    ("check", "--output", "/no/folder/report"): "--output: /no/folder/report: No such file or directory",
    ("check", "--output", "/usr"): "--output: /usr is not a regular file",
    ("check", "--output", "/dev/fd/99"): "--output: /dev/fd/99 is not an open descriptor",
    ("check", "--output", ""): "--output",
    ("check", "--peers", "10.0.0.300"): "--peers: '10.0.0.300' is neither an address nor a host name",
    ("check", "--peers", "node1,,node2"): "--peers: '' is neither an address nor a host name",
    ("check", "--peers", "node 1"): "--peers:",
    ("check", "--peers", "-1"): "--peers:",
    ("check", "--peers", "10.0.0.1:22"): "--peers:",
    ("check", "--wait", "-1"): "--wait: '-1' is not a number of seconds from 0 to 86400",
    ("check", "--wait", "nan"): "--wait:",
    ("check", "--user", "nobody-has-this-name"): "--user: there is no user nobody-has-this-name",
    ("check", "--user", ""): "--user: there is no user ''",
    ("check", "--job", "batch"): "--job: 'batch' is not a Slurm job id",
    ("check", "--job", "7_"): "--job:",
    ("check", "--job", "7_1_2"): "--job:",
    ("check", "--job", "-7"): "--job:",
    ("check", "--job", "7.0"): "--job:",
    ("show",): "specify a check or a code",
    ("show", "cache-sever"): "no such check or code: cache-sever; did you mean cache-server?",
    ("show", "cache-server", "more"): "unexpected argument: more",
    ("schema", "reports"): "no such document: reports; did you mean report?",
    ("fleet", "check"): "no nodes are given: use -w NODES or --from FILE",
    ("fix", "cache-sever"): "did you mean cache-server?",
}


# One for each way to be refused: by click, the plain table, the options, names, a command itself.
STARTED = (
    ("chek",),
    ("check", "--formt", "json"),
    ("check", "--scope", "nodes"),
    ("check", "scipy"),
    ("explain", "E9999X"),
    ("fleet", "check"),
)
ALONE = [(), ("--",), ("--lang", "en")]
HELP = [("--help",), ("-h",), ("check", "--help"), ("check", "nope", "-h")]
VERSION = [("--version",), ("--lang", "en", "--version"), ("--version", "list")]
DECLARED = {
    "check": "[ID|GROUP|TAG|CODE]...",
    "show": "ID|CODE",
    "run": "[--] COMMAND...",
    "undo": "[RUN]",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Done]:
    """How each line of this file ended, all of them in one process."""
    declared = [(command, "--help") for command in DECLARED]
    lines = list(dict.fromkeys([*MISUSES, *ALONE, *HELP, *VERSION, *declared]))
    return dict(zip(lines, Npudoctor(tmp_path_factory.mktemp("usage")).each(lines)))


@pytest.mark.parametrize("arguments", [*STARTED, ALONE[0], HELP[2], *VERSION[:2]])
def test_a_start_of_its_own_ends_the_same(
    npudoctor: Npudoctor, ended: dict[tuple[str, ...], Done], arguments: tuple[str, ...]
) -> None:
    assert npudoctor(*arguments) == ended[arguments]


@pytest.mark.parametrize("arguments", MISUSES)
def test_a_misuse_is_one_line_and_64(ended: dict[tuple[str, ...], Done], arguments: tuple[str, ...]) -> None:
    done = ended[arguments]
    assert (done.status, done.out) == (64, ""), done
    assert done.err.startswith("npudoctor: ") and done.err.count("\n") == 1, done.err
    assert MISUSES[arguments] in done.err


@pytest.mark.parametrize("arguments", [*ALONE, ("--lang", "zh")])
def test_alone_it_prints_help_on_standard_error(
    npudoctor: Npudoctor, ended: dict[tuple[str, ...], Done], arguments: tuple[str, ...]
) -> None:
    done = ended.get(arguments) or npudoctor(*arguments)
    assert (done.status, done.out) == (64, "")
    assert "npudoctor [OPTIONS] COMMAND" in done.err and "check" in done.err


@pytest.mark.parametrize("arguments", HELP)
def test_help_is_a_result(ended: dict[tuple[str, ...], Done], arguments: tuple[str, ...]) -> None:
    done = ended[arguments]
    assert (done.status, done.err) == (0, "")
    assert "--help" in done.out and max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("arguments", VERSION)
def test_the_version_is_told(ended: dict[tuple[str, ...], Done], arguments: tuple[str, ...]) -> None:
    done = ended[arguments]
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("npudoctor ") and done.out.count("\n") == 1


def test_a_python_inside_the_root_must_be_there(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "image/usr/bin").mkdir(parents=True)
    arguments = ("check", "--root", "image", "--python", "/usr/bin/python3")
    assert npudoctor(*arguments).err == "npudoctor: --python: /usr/bin/python3 does not exist\n"
    (tmp_path / "image/usr/bin/python3").write_text("")
    done = npudoctor(*arguments, "--format", "json")
    assert (done.status, done.json["target"]["root"]) == (2, str(tmp_path / "image"))


def test_a_root_that_is_a_link_is_named_without_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "link").symlink_to("image")
    done = npudoctor("check", "clock", "--root", "link/../link", "--format", "json")
    assert done.json["target"]["root"] == str(tmp_path / "image")


def test_a_language_that_is_none_is_refused_in_the_callers_own(npudoctor: Npudoctor) -> None:
    lines = (("--lang", "fr", "check"), ("check", "--lang", "fr"), ("list", "--lang=fr"))
    for own, english in zip(npudoctor.each(lines, NPUDOCTOR_LANG="zh"), npudoctor.each(lines)):
        assert (own.status, english.status) == (64, 64)
        assert "is not one of" in english.err and "is not one of" not in own.err


@pytest.mark.parametrize("command", DECLARED)
def test_help_shows_arguments_as_they_are_declared(ended: dict[tuple[str, ...], Done], command: str) -> None:
    """With every version of typer: 0.29 wrote `[[RUN]]` and `[RUN] <str>`."""
    argument, shown = DECLARED[command], ended[command, "--help"].out
    assert f"Usage: npudoctor {command} [OPTIONS] {argument}\n" in shown
    assert f"\nArguments:\n  {argument}  " in shown
