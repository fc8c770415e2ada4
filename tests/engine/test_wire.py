"""Messages survive the socket however it cuts them, and a closed end is noticed."""

import socket

import pytest

from isotherm.base.outcome import Finish, FinishReason, Usage
from isotherm.base.sampling import SamplingParams
from isotherm.base.stats import Stats
from isotherm.engine.messages import Abort, Fatal, Output, Piece, Ready, Shutdown, Start, Submit, TokenScore
from isotherm.engine.options import EngineOptions, Limits
from isotherm.engine.wire import HEADER, EngineConnection, PeerGone, decode_answer, pack

REQUESTS = [
    Start(EngineOptions("m", kv_memory=5)),
    Submit(3, [1, 2, 3], SamplingParams(logit_bias={7: -1.5}, stop=("a", "b"), seed=2**62), 1, "</think>"),
    Abort([1, 2]),
    Shutdown(),
]


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, EngineConnection(theirs)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_requests_in_pieces(ends, size):
    ours, engine = ends
    data = b"".join(map(pack, REQUESTS))
    received = []
    for start in range(0, len(data), size):
        ours.sendall(data[start : start + size])
        received += engine.receive(0)
    assert received == REQUESTS


def test_nothing_to_receive(ends):
    _, engine = ends
    assert engine.receive(0) == []
    assert engine.receive(0.01) == []


@pytest.mark.parametrize(
    "answer",
    [
        Ready(Limits(1, 2, 3, 4, 5), {"kernels": "x"}),
        Fatal("why", setup=True),
        Output(
            [
                Piece(1, "é", [5], [1], [TokenScore(5, -0.5, [(5, -0.5)])], [TokenScore(1, None)]),
                Piece(2, finish=Finish(FinishReason.STOP, Usage(1, 2, 3), matched="END")),
                Piece(3, finish=Finish(FinishReason.STOP, Usage(1, 2), matched=7)),
            ],
            Stats(running=2, busy_seconds_total=0.5),
        ),
    ],
)
def test_answers_come_as_they_were_sent(ends, answer):
    ours, engine = ends
    engine.send(answer)
    data = ours.recv(1 << 16)
    (length,) = HEADER.unpack(data[: HEADER.size])
    assert decode_answer(data[HEADER.size :]) == answer
    assert len(data) == HEADER.size + length


def test_a_closed_end_is_noticed(ends):
    ours, engine = ends
    ours.close()
    with pytest.raises(PeerGone):
        engine.receive(None)
    with pytest.raises(PeerGone):
        engine.send(Fatal("nobody listens"))
