"""Train Nano.

    python -m training.train RUN --steps 12000          start, or with --resume go on, in the folder RUN
    python -m training.train RUN --begin MODEL          start from a trained model's weights and tokenizer
    python -m training.train RUN --smoke                a minute: does the loss fall?

RUN gets the tokenizer, ``checkpoint.pt`` every few minutes, ``log.jsonl`` and at the end ``model``, a folder that
``isotherm serve`` takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn

from isotherm.bench.skills.source import Source, Split
from training import network, tokenizer
from training.batches import Batch, Batches
from training.corpus import held_out
from training.evaluate import exact, solve
from training.forward import Pass, hidden_states
from training.fused import compile_from_now_on
from training.layout import Layout
from training.muon import Muon
from training.progress import Progress
from training.repetition import repetition
from training.tensors import linear

SEED = 1
MATRICES, OTHERS = 0.02, 3e-3
"""Learning rates at their top: of matrices inside the network, and of embedding, head, routers, norms and mixers."""
WARM_UP, FALLING, LAST = 100, 0.5, 0.02
"""Steps up to the top, the share of steps that lead down from it, what is left of the rate at the end."""
DECAY = 0.05
CLIP = 1.0
REPEATING = 0.05
"""Share of the steps that only repeat random tokens."""
LONGER_UNTIL = 0.75
"""Share of the steps after which items have their full size."""
DENSE_UNTIL = 0.6
"""Share of the steps in which all visible rows are read, while the indexer learns which ones matter."""
FIRST_WORD = 3
"""The first id behind begin, end and padding."""
TAUGHT = 16
"""One position in so many teaches the indexer."""
BALANCE = 1e-3
TOLD, EXAMINED, SOLVED = 20, 250, 1000
"""Steps between lines, between looks at held-out items, between decoded answers."""

SMOKE_STEPS, SMOKE_TOKENS = 24, 256


@dataclass(slots=True)
class Run:
    """All that a step needs."""

    folder: Path
    steps: int
    model: Any
    optimizers: list[torch.optim.Optimizer]
    batches: Batches
    progress: Progress
    step: int = 0
    grown: bool = False
    """It began with trained weights, so the curriculum is behind it."""


def main() -> int:
    """0 when the steps are done; with --smoke 1 where the loss did not fall."""
    parser = argparse.ArgumentParser(description="Train Nano.")
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--minutes", type=float, default=10, help="between checkpoints")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from the run's checkpoint")
    parser.add_argument("--begin", type=Path, metavar="MODEL", help="folder whose weights and tokenizer are taken over")
    parser.add_argument("--smoke", action="store_true", help="a minute of training, not compiled")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.smoke:
        return smoke(options.folder)
    compile_from_now_on()
    if options.begin:
        take_tokenizer(options.begin, options.folder)
    run = start(options.folder, options.steps)
    if options.begin:
        begin(run, options.begin)
    if options.resume:
        resume(run)
    train(run, options.minutes * 60)
    finish(run)
    return 0


def start(folder: Path, steps: int, vocab_size: int = tokenizer.VOCAB_SIZE, items: int = tokenizer.ITEMS) -> Run:
    """A run at its beginning; the tokenizer is made if the folder has none."""
    path = folder / "tokenizer.json"
    description = path.read_bytes() if path.exists() else tokenizer.write(folder, vocab_size, items)
    model = network.build(Tokenizer.from_str(description.decode()).get_vocab_size(), SEED)
    batches = Batches(Layout(description), Source(SEED, Split.TRAIN))
    return Run(folder, steps, model, optimizers(model), batches, Progress(folder))


def take_tokenizer(model: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in network.TOKENIZER_FILES:
        (folder / name).write_bytes((model / name).read_bytes())


def begin(run: Run, model: Path) -> None:
    """From weights that were trained before: nothing is repeated, items have their full size at once."""
    run.model.load_state_dict(network.load(model).state_dict())
    run.grown = True
    run.batches.source.random.seed(f"begun-{run.steps}")


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for projections and experts, AdamW for the rest."""
    named = list(model.named_parameters())
    matrices = [parameter for name, parameter in named if "_proj" in name]
    others = [parameter for name, parameter in named if "_proj" not in name]
    return [
        Muon(matrices, lr=MATRICES, weight_decay=DECAY),
        torch.optim.AdamW(others, lr=OTHERS, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def rate(step: int, steps: int) -> float:
    """The share of the top: up in a line, level, down in a line."""
    warm_up = min(WARM_UP, steps // 4)
    left = (steps - step) / (FALLING * steps)
    return min((step + 1) / warm_up, 1.0, max(left, LAST))


def train(run: Run, between: float) -> None:
    """Up to the last step; a checkpoint every ``between`` seconds and at the end."""
    saved = time.monotonic()
    for values in steps(run):
        if run.step % EXAMINED == 0 or run.step == run.steps:
            examine(run)
        if time.monotonic() - saved > between or run.step == run.steps:
            checkpoint(run)
            saved = time.monotonic()
        if run.step % TOLD == 0:
            text = f"loss {values['loss']:.3f}  index {values['index']:.3f}  {values['speed']:.0f} tokens/s"
            run.progress.say(run.step, run.steps, text, values["speed"] / run.batches.tokens)
            run.progress.log("step", run.step, **values)


def steps(run: Run) -> Iterable[dict[str, float]]:
    """Does them one by one and tells of each: losses (means since the last line), tokens of a step, tokens/s."""
    losses: list[tuple[float, float]] = []
    tokens, since = 0, time.monotonic()
    while run.step < run.steps:
        done = run.step / run.steps
        topk = run.model.config.index_topk if run.grown or done >= DENSE_UNTIL else None
        losses.append(step(run, batch(run, done), topk))
        tokens, run.step = tokens + run.batches.tokens, run.step + 1
        words, index = (sum(column) / len(losses) for column in zip(*losses, strict=True))
        speed = tokens / (time.monotonic() - since)
        yield {"loss": words, "index": index, "speed": speed, "rate": rate(run.step, run.steps)}
        if run.step % TOLD == 0:
            losses, tokens, since = [], 0, time.monotonic()


def batch(run: Run, done: float) -> Batch:
    """Repetition first, then conversations that grow."""
    if run.grown:
        return run.batches.next(1.0)
    if done < REPEATING:
        words = range(FIRST_WORD, run.model.config.vocab_size)
        return repetition(run.batches.source.random, run.batches.tokens, words, done / REPEATING)
    return run.batches.next(0.15 + 0.85 * min(1.0, done / LONGER_UNTIL))


def step(run: Run, part: Batch, topk: int | None) -> tuple[float, float]:
    """One update. The losses: of answers' tokens, and of the indexer."""
    for optimizer, top in zip(run.optimizers, (MATRICES, OTHERS), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = top * rate(run.step, run.steps)
    first = int(torch.randint(TAUGHT, (), generator=torch.Generator().manual_seed(run.step)))
    how = Pass(torch.bfloat16, topk, torch.arange(first, part.ids.shape[1], TAUGHT), [], [])
    hidden = hidden_states(run.model, part.ids, how)[part.answers]
    target = part.ids.roll(-1, 1)[part.answers]
    words = F.cross_entropy(linear(hidden, run.model.lm_head).float(), target)
    index = torch.stack(how.losses).mean()
    torch.autograd.backward(words + index)
    nn.utils.clip_grad_norm_(run.model.parameters(), CLIP)
    for optimizer in run.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        network.balance(run.model, how.loads, BALANCE)
    return words.item(), index.item()


def examine(run: Run) -> None:
    """Held-out items: exact answers, and now and then decoded ones."""
    layout, topk = run.batches.layout, run.model.config.index_topk
    scores = exact(run.model, layout, held_out(16, reach=0.9), torch.bfloat16, topk)
    run.progress.log("exact", run.step, **scores)
    print("  exact: " + ", ".join(f"{name} {score['exact']:.2f}" for name, score in scores.items()), file=sys.stderr)
    if run.step % SOLVED == 0 or run.step == run.steps:
        words = Tokenizer.from_file(str(run.folder / "tokenizer.json"))
        results = solve(run.model.eval(), layout, words, held_out(4, seed=run.step, reach=0.5))
        right = {item.skill: 0.0 for item, _, _ in results}
        for item, _, correct in results:
            right[item.skill] += correct / 4
        run.progress.log("right", run.step, **right)
        print("  right: " + ", ".join(f"{name} {share:.2f}" for name, share in right.items()), file=sys.stderr)


def checkpoint(run: Run) -> None:
    """All that is needed to go on, written whole or not at all."""
    state = {
        "step": run.step,
        "grown": run.grown,
        "seconds": run.progress.seconds,
        "model": run.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in run.optimizers],
        "random": run.batches.source.random.getstate(),
        "waiting": run.batches.waiting,
    }
    part = run.folder / "checkpoint.part"
    torch.save(state, part)
    part.replace(run.folder / "checkpoint.pt")


def resume(run: Run) -> None:
    """Go on where the folder's checkpoint was taken; FileNotFoundError where there is none."""
    # Our own file: samples that wait are objects of ours.
    state = torch.load(run.folder / "checkpoint.pt", weights_only=False)
    run.step, run.grown = state["step"], state["grown"]
    run.model.load_state_dict(state["model"])
    for optimizer, kept in zip(run.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(kept)
    run.batches.source.random.setstate(state["random"])
    run.batches.waiting.update(state["waiting"])
    run.progress = Progress(run.folder, state["seconds"])


def finish(run: Run) -> None:
    network.save(run.model, run.folder / "model", run.folder)


def smoke(folder: Path) -> int:
    """Some dozen small steps: the loss at their end must be well below the one at their beginning."""
    run = start(folder, SMOKE_STEPS, vocab_size=600, items=300)
    run.batches.tokens = SMOKE_TOKENS
    losses = [values["loss"] for values in steps(run)]
    print(f"loss {losses[0]:.2f} in the first step, {losses[-1]:.2f} in the last {SMOKE_STEPS % TOLD}")
    finish(run)
    return int(losses[-1] > losses[0] - 1)


if __name__ == "__main__":
    sys.exit(main())
