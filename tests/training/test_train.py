"""A run that was interrupted goes on as if it had not been, and the loss falls."""

import json

import pytest
import torch

from isotherm.model.checkpoint import open_checkpoint
from training import train
from training.corpus import held_out
from training.evaluate import exact
from training.progress import Progress, read


def small(folder, steps=4):
    run = train.start(folder, steps, vocab_size=600, items=200)
    run.batches.tokens = 128
    return run


def done(run, count):
    for index, _ in enumerate(train.steps(run), 1):
        if index == count:
            return


def test_a_resumed_run_is_the_one_that_was_not_stopped(tmp_path):
    whole, first = small(tmp_path / "whole"), small(tmp_path / "parts")
    done(whole, 4)
    done(first, 2)
    train.checkpoint(first)
    second = small(tmp_path / "parts")
    train.resume(second)
    assert second.step == 2
    done(second, 2)
    wanted = whole.model.state_dict()
    assert all(value.equal(wanted[name]) for name, value in second.model.state_dict().items())


def test_a_run_begins_with_trained_weights(tmp_path):
    first = small(tmp_path / "first")
    train.finish(first)
    train.take_tokenizer(tmp_path / "first" / "model", tmp_path / "second")
    second = small(tmp_path / "second")
    second.model.lm_head.weight.data.zero_()
    train.begin(second, tmp_path / "first" / "model")
    assert second.model.lm_head.weight.equal(first.model.lm_head.weight.bfloat16().float())
    done(second, 1)
    assert second.step == 1


def test_no_step_is_resumed_without_a_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError):
        train.resume(small(tmp_path))


def test_the_rate_goes_up_and_down():
    rates = [train.rate(step, 4000) for step in range(4000)]
    top = rates.index(max(rates))
    assert top == train.WARM_UP - 1 or top == train.WARM_UP
    assert max(rates) == 1.0
    assert rates[-1] == pytest.approx(train.LAST)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_a_short_run_lowers_the_loss_and_leaves_a_model_that_can_be_served(tmp_path, capsys):
    assert train.smoke(tmp_path) == 0, capsys.readouterr().out
    checkpoint = open_checkpoint(str(tmp_path / "model"))
    assert checkpoint.tokenizer.effort_texts.table == "0731"
    assert checkpoint.config.num_layers == 6


def test_scores_of_a_network_that_knows_nothing(tmp_path):
    run = small(tmp_path)
    scores = exact(run.model, run.batches.layout, held_out(1, reach=0.2), torch.float32, 64)
    assert {name: score["exact"] for name, score in scores.items()} == dict.fromkeys(scores, 0.0)
    assert len(scores) == 8
    assert all(4 < score["loss"] < 12 for score in scores.values())


def test_events_of_steps_that_were_done_again_count_once(tmp_path):
    progress = Progress(tmp_path, seconds=100.0)
    for step, loss in ((1, 5.0), (2, 4.0), (2, 3.5)):
        progress.log("step", step, loss=loss)
    assert [(event["step"], event["loss"]) for event in read(tmp_path)] == [(1, 5.0), (2, 3.5)]
    assert all(json.loads(line)["seconds"] >= 100 for line in (tmp_path / "log.jsonl").read_text().splitlines())
