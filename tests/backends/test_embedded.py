"""The embedded backend with a real model: what a server sees of it."""

import asyncio
import os
import signal
import sys
import time

import pytest
import pytest_asyncio

from isotherm.backends.child import ChildProcess
from isotherm.backends.embedded import EmbeddedBackend
from isotherm.base.errors import EngineDied, RequestError, SetupError
from isotherm.base.outcome import FinishReason
from isotherm.base.request import ChatPrompt, TextPrompt, TokenPrompt, Turn
from isotherm.base.sampling import SamplingParams
from isotherm.engine.options import EngineOptions

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

# Deterministic, so that texts do not hang on whether a prompt shared its step or its prefix with another one.
OPTIONS = EngineOptions(
    "smollm2-135m",
    max_model_len=1024,
    max_num_seqs=4,
    max_queue=2,
    threads=1,
    deterministic=True,
    debug_integrity=True,
)
COUNT = TextPrompt("Numbers: 1, 2, 3,")
COUNTED = " 4, 5, 6, 7,"
CAPITAL = ChatPrompt([{"role": "user", "content": "What is the capital of France?"}])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend():
    backend = EmbeddedBackend(OPTIONS)
    await backend.start()
    yield backend
    await backend.close()


def turn(prompt=CAPITAL, choice=0, **fields):
    return Turn("test", prompt, SamplingParams(**{"temperature": 0.0, "max_tokens": 12, **fields}), choice)


async def collect(backend, *args, **fields):
    generation = await backend.generate(turn(*args, **fields))
    return generation, [delta async for delta in generation]


def text(deltas):
    return "".join(delta.text for delta in deltas)


def ids(deltas):
    return [token for delta in deltas for token in delta.token_ids]


async def idle(backend):
    """Wait for the engine's report that nothing runs any more."""
    for _ in range(1500):
        if not backend.stats().running and not backend.stats().waiting:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the engine goes on")


async def test_it_answers(backend):
    generation, deltas = await collect(backend, COUNT)
    assert text(deltas) == COUNTED
    finish = deltas[-1].finish
    assert finish.reason is FinishReason.LENGTH
    assert finish.usage.prompt_tokens == generation.prompt_tokens == len(await backend.tokenize(COUNT))
    assert finish.usage.completion_tokens == len(ids(deltas)) == 12


async def test_who_finds_no_room_learns_how_long_it_waited(backend):
    """Four run at a time: the fifth begins when the first of them has ended, all of them having the same length."""
    begun = time.monotonic()
    ends = await asyncio.gather(*(collect(backend, COUNT) for _ in range(5)))
    *early, last = [deltas[-1].finish.queue_seconds for _, deltas in ends]
    assert 0 < max(early) < last < time.monotonic() - begun


async def test_the_models_own_end(backend):
    (end,) = await backend.tokenize(TextPrompt("<|im_end|>"))
    generation, (delta,) = await collect(backend, CAPITAL, logit_bias={end: 100.0})
    assert (delta.text, delta.token_ids, delta.finish.reason) == ("", (end,), FinishReason.STOP)
    assert generation.prompt_tokens == len(await backend.tokenize(CAPITAL)) == 37


async def test_what_it_says_about_itself(backend):
    info = backend.info
    assert (info.name, info.max_model_len, info.vocab_size, info.has_chat_template) == (
        "smollm2-135m",
        1024,
        49152,
        True,
    )
    assert info.details["blocks"] * 32 >= 4 * 1024
    assert backend.failure() is None
    assert backend.stats().memory_bytes > 100 << 20


async def test_text_and_ids_are_the_same_answer(backend):
    _, deltas = await collect(backend, COUNT, max_tokens=20, ignore_eos=True)
    assert await backend.detokenize(ids(deltas)) == text(deltas)
    assert b"".join(backend.token_bytes(token) for token in ids(deltas)).decode() == text(deltas)


async def test_prompt_forms_agree(backend):
    tokens = await backend.tokenize(TextPrompt("Once upon a time"))
    by_text = await collect(backend, TextPrompt("Once upon a time"))
    by_ids = await collect(backend, TokenPrompt(tokens))
    assert ids(by_text[1]) == ids(by_ids[1])


async def test_logprobs_stand_beside_their_tokens(backend):
    _, deltas = await collect(backend, logprobs=3)
    for delta in deltas:
        assert [logprob.token_id for logprob in delta.logprobs] == list(delta.token_ids)
        for logprob in delta.logprobs:
            assert logprob.data == backend.token_bytes(logprob.token_id)
            assert logprob.top[0].token_id == logprob.token_id
            assert len(logprob.top) == 3


async def test_prompt_logprobs_arrive_before_the_first_delta(backend):
    generation = await backend.generate(turn(prompt_logprobs=1))
    stream = aiter(generation)
    await anext(stream)
    assert [logprob.token_id for logprob in generation.prompt_logprobs] == await backend.tokenize(CAPITAL)
    assert generation.prompt_logprobs[0].logprob is None
    assert all(logprob.logprob < 0 for logprob in generation.prompt_logprobs[1:])
    await generation.abort()


async def test_seeds_repeat_and_choices_differ(backend):
    async def answer(choice):
        return ids((await collect(backend, choice=choice, temperature=1.0, seed=3, max_tokens=16))[1])

    assert await answer(0) == await answer(0)
    assert await answer(0) != await answer(1)


async def test_stop_string(backend):
    _, deltas = await collect(backend, COUNT, stop=(", 6",))
    assert (text(deltas), deltas[-1].finish.matched) == (" 4, 5", ", 6")


async def test_the_prefix_is_reused(backend):
    question = "Please tell me about the history of the city of Bordeaux, its wine, and its harbour. " * 28
    prompt = ChatPrompt([{"role": "user", "content": question}])
    first = (await collect(backend, prompt, max_tokens=3))[1]
    second = (await collect(backend, prompt, max_tokens=3))[1]
    cold, warm = (deltas[-1].finish.usage for deltas in (first, second))
    # Deterministic: whole chunks of 512, or, on a matrix unit, whole blocks of 32.
    assert cold.cached_tokens == 0
    assert warm.cached_tokens in (512, (warm.prompt_tokens - 1) // 32 * 32)
    assert text(first) == text(second)


@pytest.mark.parametrize(
    ("prompt", "fields", "code", "words"),
    [
        (TokenPrompt([5] * 1100), {}, "context_length_exceeded", ["1100", "1024"]),
        (TokenPrompt([5, 49152]), {}, None, ["49152"]),
        (TokenPrompt([]), {}, "empty_prompt", ["empty"]),
        (TokenPrompt([5]), {"logit_bias": {70000: 1.0}}, "invalid_token_id", ["70000", "logit_bias"]),
    ],
)
async def test_refusals_name_the_numbers(backend, prompt, fields, code, words):
    with pytest.raises(RequestError) as caught:
        await backend.generate(turn(prompt, **fields))
    assert caught.value.status == 400
    assert code is None or caught.value.code == code
    assert all(word in caught.value.message for word in words)


async def test_a_full_queue_is_told_and_drains(backend):
    running = [await backend.generate(turn(max_tokens=12, ignore_eos=True)) for _ in range(6)]
    with pytest.raises(RequestError, match="4 sequences are running and 2 are waiting") as caught:
        await backend.generate(turn())
    assert (caught.value.status, caught.value.retry_after) == (429, 1)
    for generation in running:
        deltas = [delta async for delta in generation]
        assert len(ids(deltas)) == 12
    assert text((await collect(backend, COUNT))[1]) == COUNTED


async def test_abort_gives_everything_back(backend):
    generations = [await backend.generate(turn(max_tokens=400, ignore_eos=True)) for _ in range(5)]
    stream = aiter(generations[0])
    await anext(stream)
    for generation in generations:
        await generation.abort()
    rest = [delta async for delta in stream]
    assert rest[-1].finish.reason is FinishReason.ABORT
    await idle(backend)
    assert backend.stats().blocks_active == 0


async def test_a_slow_reader_disturbs_nobody(backend):
    """Nobody reads the first answer until the others are through; then it comes as one delta."""
    slow = await backend.generate(turn(max_tokens=30, ignore_eos=True))
    for _ in range(2):
        assert text((await collect(backend, COUNT))[1]) == COUNTED
    await idle(backend)
    await asyncio.sleep(0.05)
    (delta,) = [delta async for delta in slow]
    assert len(delta.token_ids) == 30


async def test_unknown_ids_are_refused(backend):
    with pytest.raises(RequestError, match="outside the vocabulary"):
        await backend.detokenize([10**6])


async def test_a_killed_engine_is_an_error_for_every_stream():
    backend = EmbeddedBackend(OPTIONS)
    await backend.start()
    child = backend._client._process
    generations = [await backend.generate(turn(max_tokens=400, ignore_eos=True)) for _ in range(3)]
    os.kill(child.pid, signal.SIGKILL)
    for generation in generations:
        with pytest.raises(EngineDied, match="SIGKILL"):
            async for _ in generation:
                pass
    assert "SIGKILL" in backend.failure()
    with pytest.raises(EngineDied, match="SIGKILL"):
        await backend.generate(turn())
    await backend.close()
    await backend.close()


async def test_an_unknown_model_leaves_no_process():
    backend = EmbeddedBackend(EngineOptions("no-such-model"))
    with pytest.raises(SetupError, match="no model 'no-such-model'"):
        await backend.start()
    assert backend.failure() == "the engine is not running"


async def test_a_setting_the_engine_refuses_is_a_setup_error():
    backend = EmbeddedBackend(EngineOptions("smollm2-135m", max_model_len=100_000))
    with pytest.raises(SetupError, match=r"100000.*8192"):
        await backend.start()


async def test_this_side_never_loads_torch():
    code = "import sys, isotherm.backends.embedded; sys.exit('torch' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0


async def test_a_missing_torch_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install 'isotherm\[engine\]'"):
        await EmbeddedBackend(OPTIONS).start()


async def test_a_start_that_is_cancelled_leaves_no_process():
    spawned = asyncio.get_running_loop().create_future()

    def spawn():
        spawned.set_result(ChildProcess())
        return spawned.result()

    starting = asyncio.create_task(EmbeddedBackend(OPTIONS, spawn).start())
    child = await spawned
    await asyncio.sleep(0.2)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert child._process.returncode is not None
