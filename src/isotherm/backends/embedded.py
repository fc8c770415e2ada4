"""The backend that is our own engine, in a child process; this side never imports torch."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from socket import socket
from typing import Protocol

from isotherm.backends.assembly import Assembler, to_logprob
from isotherm.backends.child import ChildProcess
from isotherm.backends.engine_client import EngineClient, EngineProcess
from isotherm.backends.generation import BufferedGeneration
from isotherm.backends.link import EngineLink
from isotherm.backends.prompts import PromptEncoder
from isotherm.base.backend import Backend, Capability, Generation, Loaded, ModelInfo, unwatched
from isotherm.base.effort import EffortTexts
from isotherm.base.errors import EngineDied, SetupError
from isotherm.base.request import Prompt, Turn
from isotherm.base.stats import Stats
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.call_formats import call_format
from isotherm.engine.admission import check_queue, check_request
from isotherm.engine.messages import Piece, Submit
from isotherm.engine.options import EngineOptions, Limits
from isotherm.model.checkpoint import Checkpoint, open_checkpoint


class SpawnedEngine(EngineProcess, Protocol):
    """A process with the socket that leads to it."""

    socket: socket


class EmbeddedBackend(Backend):
    """Encodes prompts here, generates in the engine's process, and splits answers here.

    ``spawn`` starts the engine's process; tests put another one in its place.
    """

    capabilities = frozenset(Capability)
    info: ModelInfo
    limits: Limits

    def __init__(self, options: EngineOptions, spawn: Callable[[], SpawnedEngine] = ChildProcess) -> None:
        self._options = options
        self._spawn = spawn
        self._client: EngineClient | None = None
        self._live: set[BufferedGeneration] = set()

    async def start(self, loaded: Loaded = unwatched) -> None:
        _check_installed()
        # The child first: it imports torch while the checkpoint is opened (and maybe fetched) here.
        process = self._spawn()
        try:
            self._client = EngineClient(process, await EngineLink.open(process.socket), self._fail_all)
            checkpoint = await asyncio.to_thread(open_checkpoint, self._options.model, offline=self._options.offline)
            tokenizer = _with_effort_texts(checkpoint, self._options.effort_texts)
            self._prompts = PromptEncoder(tokenizer)
            ready = await self._client.start(self._options, loaded)
        except BaseException:
            process.kill()
            await self.close()
            raise
        self.limits = ready.limits
        self.info = _model_info(checkpoint, tokenizer, ready.limits, ready.details)

    async def close(self) -> None:
        client, self._client = self._client, None
        for generation in list(self._live):
            generation.stop()
        self._live.clear()
        if client is not None:
            await client.close()

    async def generate(self, turn: Turn) -> Generation:
        client = self._running()
        prompt = await self._prompts.prepare(turn.prompt)
        check_request(prompt.ids, turn.sampling, self.limits)
        check_queue(client.unfinished, self.limits)

        def request(number: int) -> Submit:
            return Submit(number, prompt.ids, turn.sampling, turn.choice, prompt.stop_after, prompt.stop_after_if)

        generation = BufferedGeneration(len(prompt.ids), lambda: self._abort(generation, number))
        assembler = Assembler(self.token_bytes, prompt.splitter(), prompt.call_parser())
        number = client.submit(request, lambda piece: self._deliver(generation, assembler, piece))
        self._live.add(generation)
        return generation

    async def tokenize(self, prompt: Prompt) -> list[int]:
        return (await self._prompts.prepare(prompt)).ids

    async def detokenize(self, ids: Sequence[int]) -> str:
        return self._prompts.decode(ids)

    def token_bytes(self, token_id: int) -> bytes:
        return self._prompts.token_bytes(token_id)

    def stats(self) -> Stats:
        return self._client.stats if self._client is not None else Stats()

    def failure(self) -> str | None:
        if self._client is None:
            return "the engine is not running"
        return self._client.failure

    def _running(self) -> EngineClient:
        failure = self.failure()
        if self._client is None or failure is not None:
            raise EngineDied(failure)
        return self._client

    def _deliver(self, generation: BufferedGeneration, assembler: Assembler, piece: Piece) -> None:
        if piece.prompt_scores:
            generation.prompt_logprobs = tuple(to_logprob(score, self.token_bytes) for score in piece.prompt_scores)
        for delta in assembler.deltas(piece):
            generation.push(delta)
        if piece.finish is not None:
            self._live.discard(generation)

    def _abort(self, generation: BufferedGeneration, number: int) -> None:
        self._live.discard(generation)
        if self._client is not None:
            self._client.abort(number)

    def _fail_all(self, death: EngineDied) -> None:
        for generation in self._live:
            generation.fail(death)
        self._live.clear()


def _check_installed() -> None:
    if importlib.util.find_spec("torch") is None:
        raise SetupError("The engine needs torch, which is not installed. Run: pip install 'isotherm[engine]'")


def _with_effort_texts(checkpoint: Checkpoint, wanted: str) -> TokenizerSpec:
    """The checkpoint's tokenizer, with the operator's choice in place of what the folder tells."""
    tokenizer = checkpoint.tokenizer
    if wanted == "auto":
        return tokenizer
    if tokenizer.effort_texts is None:
        raise SetupError(
            f"--effort-texts {wanted} is for DeepSeek-V4; {checkpoint.name} has no effort texts. Leave it out"
        )
    return replace(tokenizer, effort_texts=EffortTexts(wanted, "set by --effort-texts"))


def _model_info(
    checkpoint: Checkpoint, tokenizer: TokenizerSpec, limits: Limits, details: dict[str, object]
) -> ModelInfo:
    efforts = tokenizer.effort_texts
    return ModelInfo(
        name=checkpoint.name,
        max_model_len=limits.context,
        created=int(time.time()),
        vocab_size=limits.vocab_size,
        generation_config=checkpoint.generation_config,
        has_chat_template=tokenizer.takes_messages,
        details=details if efforts is None else {**details, "effort_texts": str(efforts)},
        effort_texts=efforts,
        call_format=call_format(tokenizer.chat_encoding),
    )
