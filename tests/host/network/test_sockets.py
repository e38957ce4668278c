"""Sockets: what connect() answers in every state of a real socket, and the tables of /proc/net."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.others import let_through

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.network.interfaces import interface_addresses
from npudoctor.host.network.sockets import (
    Listener,
    Sockets,
    TcpSocket,
    collapse_slashes,
    listener_from_errno,
    parse_tcp,
    parse_unix,
    probe,
)
from npudoctor.testing import MemoryDisk, unreadable

UNIX = (
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0000000066d75be4: 00000003 00000000 00000000 0001 03 240310 ///tmp/mindspore/anna/cache_server_p50070\n"
    "00000000d2759491: 00000002 00000000 00010000 0001 01 240916 ///tmp/mindspore/anna/cache_server_p50070\n"
    "00000000d2759492: 00000002 00000000 00010000 0001 01 240917 /run/with a blank\n"
    "00000000d2759493: 00000002 00000000 00010000 0001 01 240918 @abstract\n"
    "00000000d2759494: 00000003 00000000 00000000 0001 03 240919\n"
    "00000000d2759495: 00000002 00000000 00010000 0001 01 240920 /run/a\x0bb\n"
)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        yield made


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


def test_listening(listener: socket.socket, path: str) -> None:
    listener.listen(1)
    assert probe(path) is Listener.ALIVE


def test_bound_and_not_listening_yet(listener: socket.socket, path: str) -> None:
    assert probe(path) is Listener.REFUSED


def test_nobody_any_more(listener: socket.socket, path: str) -> None:
    listener.listen(1)
    listener.close()
    assert probe(path) is Listener.REFUSED


def test_a_full_backlog(listener: socket.socket, path: str) -> None:
    listener.listen(0)
    waiting = [socket.socket(socket.AF_UNIX) for _count in range(4)]
    try:
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(path)
        began = time.monotonic()
        assert probe(path) is Listener.ALIVE
        assert time.monotonic() - began < 5
    finally:
        for client in waiting:
            client.close()


def test_a_stopped_server(path: str) -> None:
    code = (
        "import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(5);"
        "print(flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", code, path], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            server.send_signal(signal.SIGSTOP)
            assert probe(path) is Listener.ALIVE
        finally:
            server.kill()
    assert probe(path) is Listener.REFUSED, "after kill -9"


def test_a_datagram_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        assert probe(path) is Listener.ALIVE


def test_a_regular_file_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe(str(tmp_path / "file")) is Listener.REFUSED, "lstat first"
    assert probe(str(tmp_path / "nothing")) is Listener.MISSING


def test_what_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    assert probe(str(tmp_path / "loop")) is Listener.UNKNOWN
    assert probe(str(tmp_path / "file/below")) is Listener.UNKNOWN
    assert probe(str(tmp_path / ("x" * 200))) is Listener.UNKNOWN, "too long for the address"


def test_through_a_descriptor_no_folder_is_too_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    descriptor = os.open(deep, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{descriptor}/socket")
            assert probe("socket", descriptor) is Listener.REFUSED
            server.listen(1)
            assert probe("socket", descriptor) is Listener.ALIVE
        assert probe("nothing", descriptor) is Listener.MISSING
        assert probe(str(deep / "socket")) is Listener.UNKNOWN
    finally:
        os.close(descriptor)


@pytest.mark.needs_root
def test_a_socket_of_somebody_else(listener: socket.socket, path: str) -> None:
    listener.listen(1)
    os.chmod(path, 0o600)
    let_through(Path(path).parent)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            status = 0 if probe(path) is Listener.UNKNOWN else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.needs_root
def test_a_server_in_another_network_namespace(path: str) -> None:
    """It lives, and no table of ours shows it: connect() alone decides."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if ctypes.CDLL(None).unshare(0x40000000) == 0:
                server = socket.socket(socket.AF_UNIX)
                server.bind(path)
                server.listen(1)
                os.write(told, b"1")
                time.sleep(1000)
        finally:
            os._exit(1)
    try:
        os.close(told)
        assert os.read(ready, 1) == b"1"
        assert path not in Sockets(LocalDisk(), interface_addresses).unix_paths()
        assert probe(path) is Listener.ALIVE
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("number", "listener"),
    [
        (0, Listener.ALIVE),
        (errno.EAGAIN, Listener.ALIVE),
        (errno.EPROTOTYPE, Listener.ALIVE),
        (errno.ECONNREFUSED, Listener.REFUSED),
        (errno.ENOENT, Listener.MISSING),
        (errno.EACCES, Listener.UNKNOWN),
        (errno.EPERM, Listener.UNKNOWN),
        (errno.ETIMEDOUT, Listener.UNKNOWN),
        (errno.EINPROGRESS, Listener.UNKNOWN),
        (errno.ENOTSOCK, Listener.UNKNOWN),
        (errno.EINTR, Listener.UNKNOWN),
        (errno.EMFILE, Listener.UNKNOWN),
        (12345, Listener.UNKNOWN),
    ],
)
def test_only_refused_is_refused(number: int, listener: Listener) -> None:
    assert listener_from_errno(number) is listener


def test_the_table_of_unix_sockets() -> None:
    assert parse_unix(UNIX) == {
        "/tmp/mindspore/anna/cache_server_p50070",
        "/run/with a blank",
        "@abstract",
        "/run/a\x0bb",
    }


@pytest.mark.parametrize("text", ["", "Num RefCount\n", "Num\nnonsense\n\n"])
def test_a_table_without_sockets(text: str) -> None:
    assert parse_unix(text) == frozenset()
    assert parse_tcp(text) == []


def test_slashes() -> None:
    assert collapse_slashes("///tmp//mindspore/x") == "/tmp/mindspore/x"
    assert collapse_slashes("/tmp/mindspore/x") == "/tmp/mindspore/x"


def test_a_real_socket_bound_as_the_cache_server_does(tmp_path: Path) -> None:
    path = str(tmp_path / "cache_server_p50070")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("//" + path)
        assert path in Sockets(LocalDisk(), interface_addresses).unix_paths()
    assert path not in Sockets(LocalDisk(), interface_addresses).unix_paths()


TCP = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:C396 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 240100\n"
    "   1: 0A0200C0:7338 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 240101\n"
    "   2: 0100007F:9C40 0100007F:7338 01 00000000:00000000 02:00000000 00000000  1001        0 240102\n"
    "   3: 0100007F:9C41 0100007F:7338 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n"
)
TCP6 = (
    "  sl  local_address                         remote_address                        st tx_queue rx_queue"
    " tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000"
    " 00:00000000 00000000     0        0 240200\n"
    "   1: B80D0120000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000"
    " 00:00000000 00000000  1002        0 240201\n"
)


@pytest.mark.skipif(sys.byteorder != "little", reason="captured on a little-endian machine")
def test_the_tables_of_tcp_sockets() -> None:
    assert parse_tcp(TCP) == [
        TcpSocket("127.0.0.1", 50070, 1001, 240100),
        TcpSocket("192.0.2.10", 29496, 0, 240101),
        TcpSocket("127.0.0.1", 40000, 1001, 240102, is_listening=False),
    ]
    assert parse_tcp(TCP6) == [TcpSocket("::", 22, 0, 240200), TcpSocket("2001:db8::1", 8080, 1002, 240201)]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_real_tcp_sockets(family: socket.AddressFamily) -> None:
    loopback = "127.0.0.1" if family is socket.AF_INET else "::1"
    with socket.socket(family) as server:
        server.bind((loopback, 0))
        port = server.getsockname()[1]
        assert port not in {
            found.port for found in Sockets(LocalDisk(), interface_addresses).listening_sockets()
        }
        server.listen(1)
        (found,) = (
            found
            for found in Sockets(LocalDisk(), interface_addresses).listening_sockets()
            if found.port == port and found.address == loopback
        )
        assert (found.uid, found.inode) == (os.getuid(), os.fstat(server.fileno()).st_ino)


def test_a_kernel_without_ipv6() -> None:
    sockets = Sockets(MemoryDisk({"/proc/net/tcp": TCP, "/proc/net/unix": UNIX}), frozenset)
    assert len(sockets.bound_sockets()) == 3
    assert len(sockets.listening_sockets()) == 2


def test_a_proc_of_processes_alone() -> None:
    """Mounted with subset=pid: there is no link of that name."""
    sockets = Sockets(MemoryDisk({"/proc/self/net/tcp": TCP, "/proc/self/net/tcp6": TCP6}), frozenset)
    assert len(sockets.listening_sockets()) > 2
    with pytest.raises(CannotTell, match="/proc/net/unix cannot be read"):
        sockets.unix_paths()


@pytest.mark.parametrize("name", ["tcp", "tcp6", "unix"])
def test_a_closed_table_is_no_empty_table(name: str) -> None:
    files = {"/proc/net/tcp": TCP, "/proc/net/tcp6": TCP6, "/proc/net/unix": UNIX}
    sockets = Sockets(MemoryDisk({**files, f"/proc/net/{name}": unreadable(errno.EACCES)}), frozenset)
    with pytest.raises(CannotTell, match=f"/proc/net/{name} cannot be read"):
        (sockets.unix_paths if name == "unix" else sockets.bound_sockets)()


def test_our_own_addresses() -> None:
    assert "127.0.0.1" in Sockets(LocalDisk(), interface_addresses).own_addresses()
    assert not any("%" in address for address in interface_addresses())
