"""``isotherm bench skills``: flags, output, exit codes, against a server that answers over HTTP."""

import json

import pytest
from starlette.responses import JSONResponse

from isotherm.bench.skills.item import Mode
from isotherm.bench.skills.probes import PROBES
from isotherm.cli.main import main
from support.openai_server import Canned, serving


class Knowing(Canned):
    """Answers the items of one probe as expected, but those with thinking off with nothing."""

    def __init__(self, probe, items, **more):
        super().__init__(**more)
        self.known = {json.dumps(item.messages): item for mode in Mode for item in PROBES[probe].items(items, 0, mode)}

    async def chat(self, request):
        body = await request.json()
        self.bodies.append(body)
        if self.refuse_every and len(self.bodies) % self.refuse_every == 0:
            return JSONResponse({"error": {"message": "queue is full"}}, 429)
        item = self.known[json.dumps(body["messages"])]
        thinking = body["chat_template_kwargs"]["thinking"]
        message = {"content": item.expected.content if thinking else "", "reasoning_content": item.expected.reasoning}
        usage = {"prompt_tokens": 9, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 4}}
        finish = "stop" if thinking else "length"
        return JSONResponse({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def test_rates_by_mode_as_json(capsys):
    canned = Knowing("sums", 3)
    with serving(canned) as url:
        flags = ["--probes", "sums", "--modes", "off,high", "--items", "3", "--temperature", "0", "--json"]
        assert main(["bench", "skills", "--url", url, *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    off, high = document["rates"]
    assert (off["mode"], off["share"], off["starved"]) == ("off", 0.0, 3)
    assert (high["mode"], high["share"], high["reasoning_tokens"]) == ("high", 1.0, 4)
    assert high["low"] < 1.0 == high["high"]
    assert {body["temperature"] for body in canned.bodies} == {0.0}


def test_a_table_says_which_requests_failed(capsys):
    with serving(Knowing("memory", 4, refuse_every=3)) as url:
        assert main(["bench", "skills", "--url", url, "--probes", "memory", "--items", "4", "--modes", "low"]) == 1
    out, err = capsys.readouterr()
    assert "thinking low" in out
    assert "HTTP 429: queue is full" in out
    assert "memory" in err


@pytest.mark.parametrize(
    "flags", [["--probes", "memry"], ["--modes", "maximum"], ["--items", "0"], ["--temperature", "x"]]
)
def test_flags_that_make_no_sense(flags, capsys):
    assert main(["bench", "skills", *flags]) == 2
    assert flags[0] in capsys.readouterr().err
