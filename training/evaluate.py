"""How good the network is on items of the test split, by skill.

``exact`` is cheap: the share of items whose every token is the likeliest one, given those before it. Greedy decoding
then writes the expected answer to the letter. ``solve`` decodes and asks the checkers, which take other right answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from isotherm.bench.skills.item import Item
from isotherm.bench.skills.registry import right
from training.answers import read
from training.batches import PAD, TOKENS, bucket, pad
from training.forward import Pass, hidden_states
from training.fused import not_compiled
from training.layout import Layout
from training.tensors import linear

LONGEST_ANSWER = 320
Scores = dict[str, dict[str, float]]


@not_compiled()
@torch.no_grad()
def exact(model: Any, layout: Layout, items: Sequence[Item], dtype: torch.dtype, topk: int | None) -> Scores:
    """``exact`` and ``loss`` (mean of the items' means) of each skill."""
    by_length = defaultdict(list)
    for item in items:
        sample = layout.sample(item)
        length = bucket(len(sample.ids))
        if length is not None:
            by_length[length].append((item.skill, sample))
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for length, rows in by_length.items():
        for start in range(0, len(rows), max(1, TOKENS // length)):
            part = rows[start : start + max(1, TOKENS // length)]
            batch = pad([sample for _, sample in part], length)
            hidden = hidden_states(model, batch.ids, Pass(dtype, topk, None, [], []))
            for (skill, _), states, ids, wanted in zip(part, hidden, batch.ids, batch.answers, strict=True):
                logits = linear(states[wanted], model.lm_head).float()
                target = ids.roll(-1)[wanted]
                hit = float((logits.argmax(-1) == target).all())
                found[skill].append((hit, float(F.cross_entropy(logits, target))))
    return {
        skill: {"exact": sum(hit for hit, _ in rows) / len(rows), "loss": sum(loss for _, loss in rows) / len(rows)}
        for skill, rows in found.items()
    }


@torch.no_grad()
def solve(model: Any, layout: Layout, tokenizer: Tokenizer, items: Sequence[Item]) -> list[tuple[Item, str, bool]]:
    """Each item's completion by greedy decoding, in float32 and one by one, and whether it is right."""
    results = []
    for item in items:
        ids, _ = layout.prompt(item)
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=LONGEST_ANSWER,
            do_sample=False,
            pad_token_id=PAD,
        )
        text = tokenizer.decode(out[0, len(ids) :].tolist(), skip_special_tokens=False)
        results.append((item, text, right(item, read(text, item.mode))))
    return results
