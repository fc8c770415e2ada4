"""Server-sent events out of bytes cut anywhere."""

import pytest

from isotherm.bench.sse import EventParser

STREAM = b"data: one\n\n: comment\n\nevent: x\r\ndata: two\r\n\r\ndata:a\ndata: b\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_payloads_come_out_whole_whatever_the_reads(size):
    parser = EventParser()
    payloads = [payload for at in range(0, len(STREAM), size) for payload in parser.feed(STREAM[at : at + size])]
    assert payloads == [b"one", b"two", b"a\nb", b"[DONE]"]


def test_an_event_without_its_blank_line_is_not_given():
    assert EventParser().feed(b"data: half\n") == []
