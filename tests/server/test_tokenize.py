"""/tokenize and /detokenize: the ids that a generation would use, and back."""

from __future__ import annotations

import pytest

from support.serving import in_process


async def post(path, **body):
    async with in_process() as http:
        return await http.post(path, json=body)


async def test_a_text_there_and_back():
    answer = (await post("/tokenize", prompt="Grüß", model="m")).json()
    assert answer == {
        "count": 6,
        "max_model_len": 1000,
        "tokens": list("Grüß".encode()),
        "token_strs": None,
    }
    assert (await post("/detokenize", tokens=answer["tokens"])).json() == {"prompt": "Grüß"}


async def test_messages_with_and_without_the_assistant_s_opening():
    messages = [{"role": "user", "content": "a"}]
    opened = (await post("/tokenize", messages=messages)).json()["tokens"]
    closed = (await post("/tokenize", messages=messages, add_generation_prompt=False)).json()["tokens"]
    assert bytes(opened) == b"<user>a\n<assistant>"
    assert bytes(closed) == b"<user>a\n"


async def test_texts_of_tokens():
    answer = (await post("/tokenize", prompt="aß", return_token_strs=True)).json()
    assert answer["token_strs"] == ["a", "bytes:\\xc3", "bytes:\\x9f"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [257]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
    ],
)
async def test_refusals(path, body, param):
    answer = await post(path, **body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_another_model_is_not_found():
    assert (await post("/tokenize", prompt="a", model="x")).status_code == 404
