"""The real server with the real model: one that tests share, and ones of their own for those that end it."""

import sys

import pytest

from support.server_process import ServerProcess

SERVE = [sys.executable, "-m", "isotherm", "serve"]


@pytest.fixture(scope="session")
def shared(smollm2):
    """URL of a running server, the same for all tests that leave it alone."""
    flags = ["--port", "0", "--default-sampling", '{"temperature": 0.6}', "--debug-integrity"]
    with ServerProcess([*SERVE, smollm2, *flags]) as server:
        yield server.url()
        server.process.terminate()
        assert server.end(40) == 0, server.log


@pytest.fixture
def serve(smollm2):
    """Starts servers of the test's own; they are ended with the test."""
    running = []

    def start(*flags, **env):
        running.append(ServerProcess([*SERVE, smollm2, "--port", "0", *flags], **env))
        return running[-1]

    yield start
    for server in running:
        server.__exit__()
