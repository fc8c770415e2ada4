"""Whatever happens around it, an answer of a DeepSeek-V4 engine is that of one uncached forward.

Loads are drawn: prompts that share beginnings, arrive at any time, are cut into chunks of any size, give way to each
other when blocks run out, and are aborted. The pool is float32 and never wiped between loads, so that a row or a state
of another sequence would be seen. `make test` runs the written-down loads and a few drawn ones, `make test-long` many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.fakes import params
from isotherm.engine.loop import Engine
from isotherm.engine.messages import Piece, Submit
from isotherm.model.deepseek_v4.tiny import write_tiny
from support.latent import PLACES, Network, load, some_tokens

TOLERANCE = 5e-5
EVERY_EXPERT = {"num_experts_per_tok": 8}
"""All eight. Where two experts score the same to the last bit, which of them is chosen depends on the order of sums and
changes logits by more than 1: among many drawn tokens that happens. No expert knows of caches, so none is left out."""
BEGINNINGS = [some_tokens(700, seed=5), some_tokens(700, seed=6)]
ENDS = some_tokens(1000, seed=7)
LENGTHS = (3, 128, 255, 256, 257, 300, 511, 512, 513, 520, 600, 640)
SEEN: Counter[str] = Counter()
"""What the drawn loads met, so that a test can say that they met everything."""


@dataclass(frozen=True)
class Ask:
    """The first ``shared`` tokens of a beginning, then ``own`` that nobody else has."""

    beginning: int
    shared: int
    own: int = 0
    max_tokens: int = 5
    temperature: float = 0.0
    scored: bool = False
    """Scores of the prompt are wanted too, which forbids a prefix hit."""


@dataclass(frozen=True)
class Abort:
    """End the sequence that was asked for as number ``which`` (modulo how many there are)."""

    which: int


@dataclass(frozen=True)
class Steps:
    count: int


@dataclass(frozen=True)
class Load:
    moves: tuple[Ask | Abort | Steps, ...]
    chunk: int = 512
    blocks: int = 12
    places: int = PLACES


DRAIN = Steps(10_000)
AGAIN = tuple(
    move for shared, own in ((257, 3), (513, 3), (300, 0), (640, 0)) for move in (Ask(0, shared, own, 3), DRAIN)
)
CROWDED = Load((*(Ask(n % 2, 200 + 10 * n, n, 70) for n in range(4)),), blocks=5)
HITS = Load((*AGAIN, Ask(0, 513, 5), Ask(0, 257, 7), Ask(1, 700, 1), Steps(2), Ask(1, 700, 2)), chunk=129)
NEIGHBOURS = Load(
    (Ask(0, 300, max_tokens=40), Ask(0, 640, 1, 40), Steps(12), Ask(1, 300), Abort(0), Steps(1), Ask(1, 3), Abort(1)),
    chunk=63,
)

asks = st.builds(
    Ask,
    st.sampled_from((0, 0, 1)),
    st.sampled_from(LENGTHS) | st.integers(1, 640),
    st.integers(0, 40),
    st.sampled_from((0, 1, 2, 5, 12, 24)),
    st.sampled_from((0.0, 1.0)),
    st.sampled_from((False, False, False, True)),
)
growing = st.builds(Ask, st.integers(0, 1), st.integers(235, 255), st.integers(0, 5), st.integers(10, 50))
"""Answers that run into a new block."""
steps = st.builds(Steps, st.integers(0, 12))
then = steps.map(lambda some: (some,)) | st.just((DRAIN,)) | st.tuples(steps, st.builds(Abort, st.integers(0, 7)))
chunks = st.sampled_from((3, 4, 5, 63, 127, 128, 129, 255, 256, 257, 512)) | st.integers(8, 600)


def load_of(asked: st.SearchStrategy[Ask], blocks: st.SearchStrategy[int]) -> st.SearchStrategy[Load]:
    turns = st.lists(st.tuples(asked, then), min_size=3, max_size=6)
    played = turns.map(lambda turns: tuple(move for ask, after in turns for move in (ask, *after)))
    return st.builds(Load, played, chunks, blocks, st.integers(2, PLACES))


mixed = load_of(asks, st.integers(3, 12))
tight = load_of(growing, st.just(3))
DRAWN = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
"""Without shrinking: a load takes a second, and the drawn one is short enough to read."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder, seed=2, changes=EVERY_EXPERT)
    return folder


@pytest.fixture(scope="module")
def network(folder: Path) -> Network:
    return load(folder)


@pytest.fixture(scope="module")
def scores(folder: Path) -> Callable[[list[int]], torch.Tensor]:
    """Of one forward, over a pool that no engine touches."""
    return load(folder).scores


def prompt_of(ask: Ask, number: int) -> list[int]:
    return BEGINNINGS[ask.beginning][: ask.shared] + ENDS[41 * number : 41 * number + ask.own]


def play(engine: Engine, load: Load) -> dict[int, list[Piece]]:
    """Pieces of every sequence that was asked for, aborted ones as far as they came."""
    pieces: dict[int, list[Piece]] = {}
    for move in (*load.moves, DRAIN):
        match move:
            case Ask():
                number = len(pieces)
                pieces[number] = []
                sampling = params(
                    max_tokens=move.max_tokens,
                    temperature=move.temperature,
                    seed=number,
                    logprobs=0,
                    prompt_logprobs=0 if move.scored else None,
                )
                engine.submit(Submit(number, prompt_of(move, number), sampling))
            case Abort() if pieces:
                engine.abort(move.which % len(pieces))
                engine.check_integrity()
            case Steps():
                for _ in range(move.count):
                    if not engine.has_work:
                        break
                    for piece in engine.step():
                        pieces[piece.sequence].append(piece)
                    engine.check_integrity()
                else:
                    assert move is not DRAIN, "the engine does not come to an end"
    return pieces


def check(ask: Ask, number: int, pieces: list[Piece], scores: Callable[[list[int]], torch.Tensor]) -> float:
    """The largest difference of a score; at temperature 0 each token is the likeliest."""
    prompt, answer = prompt_of(ask, number), [token for piece in pieces for token in piece.token_ids]
    expected = scores(prompt + answer)
    got = [score for piece in pieces for score in piece.scores]
    assert [score.token_id for score in got] == answer
    rows = expected[len(prompt) - 1 : len(prompt) - 1 + len(answer)]
    worst = max((abs(float(row[s.token_id]) - s.logprob) for row, s in zip(rows, got, strict=True)), default=0.0)
    if ask.temperature == 0:
        assert all(row.max() - row[token] <= 2 * TOLERANCE for row, token in zip(rows, answer, strict=True))
    if ask.scored and pieces:
        (first, *asked), before = pieces[0].prompt_scores, expected[: len(prompt) - 1]
        assert first.logprob is None
        assert [score.token_id for score in asked] == prompt[1:]
        worst = max([worst, *(abs(float(row[s.token_id]) - s.logprob) for row, s in zip(before, asked, strict=True))])
    return worst


def answers_are_those_of_one_forward(load: Load, network: Network, scores: Callable[[list[int]], torch.Tensor]) -> None:
    engine = network.engine(num_blocks=load.blocks, prefill_chunk=load.chunk, places=load.places)
    try:
        pieces = play(engine, load)
        asked = [move for move in load.moves if isinstance(move, Ask)]
        for number, ask in enumerate(asked):
            finished = bool(pieces[number]) and pieces[number][-1].finish is not None
            SEEN["aborted in the middle"] += bool(pieces[number]) and not finished
            if finished:
                SEEN[f"hit of {pieces[number][-1].finish.usage.cached_tokens}"] += 1
            worst = check(ask, number, pieces[number], scores)
            assert worst <= TOLERANCE
        SEEN["preemptions"] += engine.stats().preemptions_total
        SEEN["evictions"] += engine.stats().evicted_blocks_total
        SEEN["sequences"] += len(asked)
    finally:
        for number in range(len(load.moves)):
            engine.abort(number)
        network.empty(engine)


@pytest.mark.parametrize(
    ("load", "met"),
    [
        (CROWDED, {"preemptions", "hit of 0"}),
        (HITS, {"hit of 0", "hit of 256", "hit of 512"}),
        (NEIGHBOURS, {"aborted in the middle", "hit of 0"}),
    ],
    ids=["crowded", "hits", "neighbours"],
)
def test_written_loads(
    load: Load, met: set[str], network: Network, scores: Callable[[list[int]], torch.Tensor]
) -> None:
    SEEN.clear()
    answers_are_those_of_one_forward(load, network, scores)
    assert met <= set(+SEEN)


@DRAWN
@given(mixed | tight)
def test_some_loads(network: Network, scores: Callable[[list[int]], torch.Tensor], load: Load) -> None:
    answers_are_those_of_one_forward(load, network, scores)


@pytest.mark.long
@pytest.mark.parametrize(
    ("loads", "count", "met"),
    [
        (mixed, 70, {"hit of 0", "hit of 256", "hit of 512", "evictions", "aborted in the middle"}),
        (tight, 40, {"hit of 0", "preemptions", "evictions", "aborted in the middle"}),
    ],
    ids=["mixed", "tight"],
)
def test_many_loads(
    loads: st.SearchStrategy[Load],
    count: int,
    met: set[str],
    network: Network,
    scores: Callable[[list[int]], torch.Tensor],
) -> None:
    SEEN.clear()

    @settings(DRAWN, max_examples=count)
    @given(loads)
    def many(load: Load) -> None:
        answers_are_those_of_one_forward(load, network, scores)

    many()
    print(dict(SEEN))
    assert met <= set(+SEEN)
