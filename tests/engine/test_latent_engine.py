"""A whole engine over a small DeepSeek-V4 network: every answer is that of one uncached forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.fakes import drain, params
from isotherm.base.errors import SetupError
from isotherm.cache.latent_pool import block_bytes, slot_bytes
from isotherm.engine.factory import Built, build
from isotherm.engine.latent_parts import divide, layouts
from isotherm.engine.loop import Engine
from isotherm.engine.messages import Piece, Submit
from isotherm.engine.options import EngineOptions
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.network import DeepseekV4
from isotherm.model.deepseek_v4.tiny import write_tiny
from isotherm.model.deepseek_v4.weights import load_weights
from support.latent_memory import PlainMemory

TOLERANCE = 1e-4
"""Of log-probabilities: twice that of logits, for a score has the logsumexp of all in it too."""
TEXT = torch.randint(2, 500, (900,), generator=torch.Generator().manual_seed(5)).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder)
    return folder


@pytest.fixture(scope="module")
def reference(folder: Path) -> Callable[[list[int]], torch.Tensor]:
    """Log-probabilities [tokens, V] of one forward over everything, with a memory that rounds and reuses nothing."""
    checkpoint = open_checkpoint(str(folder))
    weights = load_weights(checkpoint.config, checkpoint.tensors, torch.float32, torch.device("cpu"))
    model = DeepseekV4(checkpoint.config, weights, torch.float32)

    def scores(tokens: list[int]) -> torch.Tensor:
        memory = PlainMemory(checkpoint.config, len(tokens))
        with torch.inference_mode():
            return model.forward(memory.span(torch.tensor(tokens), 0), memory.pool).log_softmax(-1)

    return scores


def build_exact(folder: Path, **changes: Any) -> Built:
    exact = EngineOptions(
        str(folder),
        dtype="float32",
        kv_dtype="float32",
        max_num_seqs=4,
        max_model_len=2048,
        kv_memory=64 << 20,
        threads=1,
    )
    return build(replace(exact, **changes))


def start(folder: Path, **changes: Any) -> Engine:
    return build_exact(folder, **changes).engine


def ask(engine: Engine, sequence: int, prompt: list[int], **changes: Any) -> None:
    engine.submit(Submit(sequence, prompt, params(**{"max_tokens": 5, "logprobs": 0, **changes})))


def check(prompt: list[int], pieces: list[Piece], reference: Callable[[list[int]], torch.Tensor]) -> None:
    """Each answer token is the likeliest after what came before, with the reference's score."""
    answer = [token for piece in pieces for token in piece.token_ids]
    got = [score.logprob for piece in pieces for score in piece.scores]
    expected = reference(prompt + answer)[len(prompt) - 1 : -1]
    for row, token, logprob in zip(expected, answer, got, strict=True):
        assert abs(row[token] - logprob) < TOLERANCE
        assert row.max() - row[token] < TOLERANCE, "greedy"


def test_prompt_scores_are_those_of_one_forward(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    engine = start(folder)
    ask(engine, 0, TEXT[:700], prompt_logprobs=0)
    pieces = drain(engine)[0]
    expected = reference(TEXT[:700])
    for position, score in enumerate(pieces[0].prompt_scores[1:]):
        assert abs(expected[position, score.token_id] - score.logprob) < TOLERANCE
    check(TEXT[:700], pieces, reference)


def test_a_crowd_of_unequal_lengths(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    """Six sequences over four places, arriving one by one; two are aborted in the middle."""
    engine = start(folder)
    prompts = {n: TEXT[n : n + length] for n, length in enumerate((3, 300, 127, 128, 513, 40))}
    prompts[6] = TEXT[100:420]
    pieces: dict[int, list[Piece]] = {n: [] for n in prompts}
    for n, prompt in prompts.items():
        ask(engine, n, prompt, max_tokens=9)
        for piece in engine.step():
            pieces[piece.sequence].append(piece)
        engine.check_integrity()
    engine.abort(4)
    engine.abort(1)
    for n, more in drain(engine).items():
        pieces[n] += more
    for n in (0, 2, 3, 5, 6):
        check(prompts[n], pieces[n], reference)
    assert engine.stats().blocks_active == 0


@pytest.mark.parametrize(("length", "hit"), [(255, 0), (256, 0), (257, 256), (512, 256), (513, 512), (700, 512)])
def test_a_prefix_hit_changes_nothing(
    length: int, hit: int, folder: Path, reference: Callable[[list[int]], torch.Tensor]
) -> None:
    engine = start(folder)
    prompt = TEXT[:length]
    for sequence in range(2):
        ask(engine, sequence, prompt)
        pieces = drain(engine)[sequence]
        check(prompt, pieces, reference)
    assert pieces[-1].finish.usage.cached_tokens == hit
    assert engine.stats().snapshots_restored_total == (hit > 0)
    assert engine.stats().snapshots > 0


def test_a_conversation_reuses_its_answers(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    """Decoding passes a block's end: the next turn finds the snapshot that was taken there."""
    engine = start(folder)
    ask(engine, 0, TEXT[:250], max_tokens=20)
    answer = [token for piece in drain(engine)[0] for token in piece.token_ids]
    turn = TEXT[:250] + answer + TEXT[300:340]
    ask(engine, 1, turn)
    pieces = drain(engine)[1]
    assert pieces[-1].finish.usage.cached_tokens == 256
    check(turn, pieces, reference)


def test_stock_kernels_answer_the_same(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    built = build_exact(folder, kernels="stock")
    assert built.details["kernels"] == "cpu-numba, stock-attend, stock-index"
    ask(built.engine, 0, TEXT[:300])
    check(TEXT[:300], drain(built.engine)[0], reference)


def memory_for(folder: Path, blocks: int, kv_dtype: str) -> int:
    """Bytes of so few blocks beside four sequences that no snapshot finds room."""
    config = open_checkpoint(str(folder)).config
    window, compressors = layouts(config, kv_dtype)
    in_slot = slot_bytes(config.num_layers, config.attention.window, window, compressors)
    return 4 * in_slot + blocks * block_bytes(compressors)


def test_preempted_sequences_come_back_whole(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    """Blocks for four and a half sequences of two blocks each."""
    engine = start(folder, kv_memory=memory_for(folder, 5, "float32"))
    assert engine.scheduler.blocks.num_blocks == 5
    prompts = {n: TEXT[n : n + 200 + 10 * n] for n in range(4)}
    for n, prompt in prompts.items():
        ask(engine, n, prompt, max_tokens=70)
    pieces = drain(engine)
    assert engine.stats().preemptions_total > 0
    for n, prompt in prompts.items():
        check(prompt, pieces[n], reference)


@pytest.mark.parametrize(("dtype", "kv_dtype"), [("float32", "float32"), ("bfloat16", "fp8_e4m3")])
def test_deterministic_answers_are_the_same_bit_for_bit(dtype: str, kv_dtype: str, folder: Path) -> None:
    """Alone and cold; with prefix hits in a crowd of ten that decode together; with preemptions."""

    def submit(engine: Engine, sequence: int) -> None:
        prompt = (
            TEXT[: 520 + sequence % 10] if sequence % 10 < 4 else TEXT[sequence % 10 :][: 200 + 4 * (sequence % 10)]
        )
        ask(engine, sequence, prompt, temperature=0.8, seed=sequence % 10, max_tokens=60, logprobs=2)

    def scores(pieces: list[Piece]) -> list[Any]:
        return [score for piece in pieces for score in piece.scores]

    options = {"dtype": dtype, "kv_dtype": kv_dtype, "deterministic": True}
    engine, alone = start(folder, **options), []
    for sequence in range(10):
        submit(engine, sequence)
        alone.append(scores(drain(engine)[sequence]))
    assert engine.stats().cached_tokens_total == 3 * 512
    roomy, narrow = (
        start(folder, max_num_seqs=10, **options),
        start(folder, kv_memory=memory_for(folder, 5, kv_dtype), **options),
    )
    for engine in (roomy, narrow):
        crowd: dict[int, list[Piece]] = {sequence: [] for sequence in range(20)}
        for sequence in crowd:
            submit(engine, sequence)
            for piece in engine.step():
                crowd[piece.sequence].append(piece)
        for sequence, pieces in drain(engine).items():
            crowd[sequence] += pieces
        for sequence, pieces in crowd.items():
            assert scores(pieces) == alone[sequence % 10], sequence
    assert roomy.stats().cached_tokens_total > 0
    assert narrow.stats().preemptions_total > 0


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "fp8_e4m3"])
def test_rounded_caches_stay_near(kv_dtype: str, folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    engine = start(folder, kv_dtype=kv_dtype)
    ask(engine, 0, TEXT[:600], prompt_logprobs=0, max_tokens=1)
    (piece,) = drain(engine)[0]
    expected = reference(TEXT[:600])
    errors = [abs(float(expected[n, s.token_id]) - s.logprob) for n, s in enumerate(piece.prompt_scores[1:])]
    assert 0 < sum(errors) / len(errors) < 0.5


@pytest.mark.parametrize(
    ("memory", "sizes"),
    [
        (1000, (50, 1)),
        (10**6, (90, 90)),
        (10**9, (90, 90)),
        (411, (1, 0)),
    ],
)
def test_memory_is_shared_between_blocks_and_snapshots(memory: int, sizes: tuple[int, int]) -> None:
    """Four running sequences of 100 bytes, blocks of 10, 90 of them useful."""
    assert divide(memory, 100, 10, 4, 90) == sizes


@pytest.mark.parametrize(("wanted", "sizes"), [(0, (60, 0)), (2, (40, 2)), (5, (10, 5))])
def test_a_number_of_snapshots_may_be_given(wanted: int, sizes: tuple[int, int]) -> None:
    assert divide(1000, 100, 10, 4, 90, wanted) == sizes


def test_too_many_snapshots_say_what_is_needed() -> None:
    with pytest.raises(SetupError, match=r"windows of 4 .* take 400, 6 snapshots 600, a block 10; .* --kv-snapshots"):
        divide(1000, 100, 10, 4, 90, 6)


def test_no_snapshots_no_reuse(folder: Path, reference: Callable[[list[int]], torch.Tensor]) -> None:
    engine = start(folder, kv_snapshots=0)
    for sequence in range(2):
        ask(engine, sequence, TEXT[:600])
        pieces = drain(engine)[sequence]
        check(TEXT[:600], pieces, reference)
        assert pieces[-1].finish.usage.cached_tokens == 0
    assert (engine.stats().snapshots, engine.stats().snapshots_most) == (0, 0)


def test_too_little_memory_says_what_is_needed() -> None:
    with pytest.raises(SetupError, match=r"409 bytes .* too few: windows of 4 sequences take 400, a block 10"):
        divide(409, 100, 10, 4, 90)
