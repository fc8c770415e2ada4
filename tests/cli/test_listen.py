"""Taking a port: the socket, and what is said when it cannot be had."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from isotherm.base.errors import SetupError
from isotherm.cli.holder import Holder, holders
from isotherm.cli.listen import listen, url_of

HOLD = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_process():
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, int(process.stdout.readline())
    process.communicate()


def test_a_free_port_is_taken_and_listens_at_once():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert [holder.pid for holder in holders(port)] == [os.getpid()]


def test_a_busy_port_names_who_holds_it_and_how_to_go_on(other_process):
    process, port = other_process
    with pytest.raises(SetupError) as caught:
        listen("127.0.0.1", port)
    text = str(caught.value)
    assert f"Port {port} is taken by PID {process.pid} (" in text
    assert "import socket" in text
    assert "MB in memory" in text
    assert "--port N" in text
    assert f"kill {process.pid}" in text


def test_an_address_of_another_machine_and_an_unknown_name():
    with pytest.raises(SetupError, match="is not an address of this machine"):
        listen("192.0.2.1", 0)
    with pytest.raises(SetupError, match=r"--host no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize(
    ("number", "phrase"),
    [
        (errno.EADDRINUSE, "a process that you may not see"),
        (errno.EACCES, "needs more rights"),
        (errno.EADDRNOTAVAIL, "is not an address of this machine"),
        (errno.ENOBUFS, "Cannot listen at 127.0.0.1:1"),
    ],
)
def test_every_reason_has_its_advice(monkeypatch, number, phrase):
    def refuse(self, address):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(SetupError) as caught:
        listen("127.0.0.1", 1)
    assert phrase in str(caught.value)
    assert "--port" in str(caught.value) or "--host" in str(caught.value)


def test_the_url_of_all_addresses_is_one_that_works_here():
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_an_address_of_six_stands_in_brackets():
    """Or, where the machine has no such address, is refused as one."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        with pytest.raises(SetupError, match="::1"):
            listen("::1", 0)
        return
    with listen("::1", 0) as listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_port_nobody_holds_has_no_holder(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert holders(port) == []
    assert holders(port, proc=tmp_path) == []


@pytest.mark.parametrize(("age", "text"), [(5, "5 s ago"), (120, "2 min ago"), (7200, "2 h ago"), (200_000, "2 d ago")])
def test_ages_are_rounded_to_their_unit(age, text):
    assert text in str(Holder(1, "x", 1_000_000, age))
