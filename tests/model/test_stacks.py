"""Whole forwards in one call: against transformers in float32, and bit by bit against themselves in other company."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from isotherm.engine.plan import Segment
from isotherm.kernels.cpu.amx import has_amx
from isotherm.kernels.cpu.vector import has_pair_products
from isotherm.model import forms
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.llama_loader import load_llama
from model.test_llama_families import write_tokenizer
from support.forwards import Forwards

SIZES: dict[str, Any] = {
    "vocab_size": 304,
    "hidden_size": 192,
    "intermediate_size": 352,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
TOKENS = torch.randint(0, 300, (230,), generator=torch.Generator().manual_seed(1))
FORMS = {"dense": has_pair_products(), "vectors": has_pair_products(), "unit": has_amx()}
"""Which forms this CPU can be made to choose."""
CHOSEN = [name for name, possible in FORMS.items() if possible]


@pytest.fixture(scope="module", params=[False, True], ids=["no-biases", "biases"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LlamaForCausalLM]:
    """A random network whose weights are bfloat16 numbers, saved as its publisher would."""
    folder = tmp_path_factory.mktemp("network")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=request.param, mlp_bias=request.param)).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.2 if parameter.dim() == 1 else 0.08)
        parameter.data = parameter.data.bfloat16().float()
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder, model


def load(folder: Path, form: str, monkeypatch: pytest.MonkeyPatch, *, deterministic: bool = False) -> Forwards:
    """The network in bfloat16 on a CPU that has what ``form`` needs and no more."""
    if form != "unit":
        monkeypatch.setattr(forms.amx, "has_amx", lambda: False)
    if form == "dense":
        monkeypatch.setattr(forms, "has_pair_products", lambda: False)
    checkpoint = open_checkpoint(str(folder))
    model = load_llama(
        checkpoint.config,
        checkpoint.tensors,
        dtype=torch.bfloat16,
        max_model_len=512,
        deterministic=deterministic,
        max_decode_rows=40,
    )
    assert (model.weights.stack is not None) == (form != "dense")
    assert model.independent_rows == (form == "unit")
    return Forwards(model)


@pytest.mark.parametrize("form", CHOSEN)
def test_logits_differ_from_transformers_only_by_rounding(
    network: tuple[Path, LlamaForCausalLM], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, reference = network
    ours = load(folder, form, monkeypatch)
    with torch.inference_mode():
        expected = reference(TOKENS[None]).logits[0]
    sequence = ours.sequence(TOKENS.tolist(), 230)
    for logits, wanted in (
        (ours.prefill(sequence, 512), expected),
        (ours.prefill(sequence, 33), expected),
        (ours.decode([sequence]), expected[-1:]),
        (ours.decode([sequence] * 20), expected[-1:].expand(20, -1)),
    ):
        assert (logits - wanted).norm() < 0.02 * wanted.norm(), "bfloat16 through three layers gives about 1 %"


@pytest.mark.skipif(not has_amx(), reason="needs a matrix unit")
def test_prompts_are_bitwise_the_same_however_cut_and_whatever_is_beside_them(
    network: tuple[Path, LlamaForCausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load(network[0], "unit", monkeypatch, deterministic=True)
    sequence = ours.sequence(TOKENS.tolist(), 230)
    whole = ours.prefill(sequence, 512)
    for chunk in (1, 7, 33, 100):
        assert torch.equal(ours.prefill(ours.sequence(TOKENS.tolist(), 230), chunk), whole)
    others = [ours.sequence(TOKENS[:length].tolist(), length) for length in (3, 40)]
    again = ours.sequence(TOKENS.tolist(), 230)
    segments = [Segment(s, 0, len(s.tokens), False, False, all_logits=True) for s in (others[0], again, others[1])]
    assert torch.equal(ours.runner.run(segments)[3:233], whole)


@pytest.mark.parametrize("form", [form for form in CHOSEN if form != "dense"])
def test_decode_rows_are_bitwise_the_same_in_any_company(
    network: tuple[Path, LlamaForCausalLM], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load(network[0], form, monkeypatch, deterministic=True)
    sequences = [ours.sequence(TOKENS[:length].tolist(), length) for length in range(1, 200, 5)]
    for sequence in sequences:
        ours.prefill(sequence, 512)
    together = ours.decode(sequences)
    for size in (1, 2, 3, 9):
        for first in range(0, len(sequences) - size, 7):
            assert torch.equal(ours.decode(sequences[first : first + size]), together[first : first + size])
