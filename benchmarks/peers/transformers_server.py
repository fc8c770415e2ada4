"""Hugging Face transformers behind the thinnest OpenAI-compatible server: one request at a time, streamed.

    OMP_NUM_THREADS=1 python benchmarks/peers/transformers_server.py MODEL_DIR --port 9000

transformers is a library; this file is what a user would write around its ``generate``. It knows the fields
that the benchmarks send (messages, max_tokens, temperature, seed, ignore_eos, stream) and no other.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

NAME = "smollm2-135m"


class Model:
    """Weights and tokeniser in bfloat16; ``answer`` yields events, one caller at a time."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        self._turn = threading.Lock()

    def answer(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self._turn:
            encoded = self._tokenizer.apply_chat_template(
                request["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            streamer = TextIteratorStreamer(self._tokenizer, skip_prompt=True, skip_special_tokens=True)
            made: list[int] = []
            thread = threading.Thread(target=self._generate, args=(encoded, request, streamer, made))
            thread.start()
            for text in streamer:
                yield _event({"content": text})
            thread.join()
            prompt = int(encoded["input_ids"].shape[1])
            yield _event({}, finish="length" if made[0] >= request["max_tokens"] else "stop")
            yield {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": made[0]}}

    def _generate(self, encoded: Any, request: dict[str, Any], streamer: TextIteratorStreamer, made: list[int]) -> None:
        torch.manual_seed(request.get("seed", 0))
        temperature, limit = request.get("temperature", 1.0), request["max_tokens"]
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
        least = limit if request.get("ignore_eos") else 1
        output = self._model.generate(
            **encoded, **sampling, max_new_tokens=limit, min_new_tokens=least, streamer=streamer
        )
        made.append(int(output.shape[1] - encoded["input_ids"].shape[1]))


def _event(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def create_app(model: Model) -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": NAME, "object": "model"}]}

    @app.post("/v1/chat/completions")
    def chat(request: dict[str, Any]) -> Response:
        if request.get("stream"):
            return StreamingResponse(_lines(model.answer(request)), media_type="text/event-stream")
        events = list(model.answer(request))
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
        message = {"role": "assistant", "content": text}
        return JSONResponse({"choices": [{"index": 0, "message": message}], "usage": events[-1]["usage"]})

    return app


def _lines(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        yield f"data: {json.dumps(event)}\n\n"
    yield "data: [DONE]\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, default=9000)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    uvicorn.run(create_app(Model(args.folder)), port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
