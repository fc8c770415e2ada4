"""The training's own forward pass against transformers', and what the indexer learns from."""

import pytest
import torch

from training import network
from training.forward import Pass, hidden_states
from training.train import optimizers

SMALL = {"hidden_size": 64, "num_hidden_layers": 4, "compress_ratios": [0, 4, 128, 4], "index_topk": 16}


@pytest.fixture(scope="module")
def model():
    """All that begins at zero or one is random here; with this seed no two rows or experts are nearly as good."""
    made = network.build(300, 2, SMALL)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() == 1 or "position_bias" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
        for layer in made.model.layers[2:]:
            layer.mlp.gate.e_score_correction_bias.normal_(0, 0.2)
    return made


def ids(batch, length):
    return torch.randint(3, 300, (batch, length), generator=torch.Generator().manual_seed(1))


def plain(topk=16, taught=None):
    return Pass(torch.float32, topk, taught, [], [])


@pytest.mark.parametrize(("batch", "length"), [(3, 64), (2, 128), (1, 512)])
def test_it_is_transformers_forward(model, batch, length):
    tokens = ids(batch, length)
    with torch.no_grad():
        wanted = model.model(input_ids=tokens, use_cache=False).last_hidden_state
        assert (hidden_states(model, tokens, plain()) - wanted).abs().max() < 5e-5


def test_reading_all_rows_is_another_result(model):
    tokens = ids(1, 512)
    with torch.no_grad():
        few, every = (hidden_states(model, tokens, plain(topk)) for topk in (16, None))
    # Up to 64 tokens there are no more than 16 rows to choose from.
    assert (few[:, :64] - every[:, :64]).abs().max() < 1e-5
    assert (few[:, 256:] - every[:, 256:]).abs().max() > 1e-2


def test_padding_on_the_right_changes_nothing(model):
    tokens = ids(1, 256)
    padded = torch.cat([tokens, torch.full((1, 256), 2)], 1)
    with torch.no_grad():
        difference = hidden_states(model, padded, plain())[:, :256] - hidden_states(model, tokens, plain())
    assert difference.abs().max() < 1e-5


def test_bfloat16_is_near(model):
    tokens = ids(2, 128)
    with torch.no_grad():
        exact = hidden_states(model, tokens, plain())
        near = hidden_states(model, tokens, Pass(torch.bfloat16, 16, None, [], []))
    assert (near.float() - exact).abs().mean() < 0.05 * exact.abs().mean()


def test_a_length_that_is_no_multiple_of_the_window_is_refused(model):
    with pytest.raises(ValueError, match="multiple of the window"):
        hidden_states(model, ids(1, 200), plain())


def test_words_teach_all_but_the_indexer_and_the_lesson_teaches_the_indexer_alone(model):
    def learned(loss):
        model.zero_grad()
        loss.backward()
        return {name for name, parameter in model.named_parameters() if parameter.grad is not None}

    everything = {name for name, _ in model.named_parameters()} - {"lm_head.weight"}
    indexer = {name for name in everything if ".indexer." in name}
    assert learned(hidden_states(model, ids(2, 256), plain()).square().mean()) == everything - indexer
    how = plain(taught=torch.arange(5, 256, 16))
    hidden_states(model, ids(2, 256), how)
    assert len(how.losses) == 2
    assert learned(torch.stack(how.losses).sum()) == indexer


def test_the_lesson_can_be_learned():
    made = network.build(300, 0, SMALL)
    both, tokens, losses = optimizers(made), ids(4, 256), []
    for _ in range(25):
        how = plain(None, torch.arange(3, 256, 8))
        hidden_states(made, tokens, how)
        loss = torch.stack(how.losses).mean()
        losses.append(loss.item())
        loss.backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
    assert losses[-1] < 0.7 * losses[0]


def test_it_begins_like_a_residual_network():
    made = network.build(300, 0)
    base = made.model.layers[0].attn_hc.base.detach()
    assert torch.sigmoid(base[:4]).sum() == pytest.approx(1.0, abs=0.2)
    assert (base[8:].view(4, 4).softmax(-1).diagonal() > 0.9).all()
    routes = made.model.layers[0].mlp.gate.tid2eid
    assert (routes[:, 0] != routes[:, 1]).all()
    assert torch.bincount(routes[:, 0]).max() - torch.bincount(routes[:, 0]).min() <= 1
    assert 2e6 < sum(parameter.numel() for parameter in network.build(2048, 0).parameters()) < 6e6


def test_the_bias_moves_towards_experts_with_little_to_do():
    made = network.build(300, 0, SMALL)
    loads = [torch.tensor([9, 1, 5, 5, 5, 5, 5, 5]) for layer in made.model.layers if not layer.mlp.is_hash]
    with torch.no_grad():
        network.balance(made, loads, 0.5)
    bias = made.model.layers[-1].mlp.gate.e_score_correction_bias
    assert bias[:3].tolist() == [-0.5, 0.5, 0.0]
