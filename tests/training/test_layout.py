"""What is trained on begins with exactly what the server gives the model, and is read back as what was meant."""

import json

import pytest
from tokenizers import Tokenizer

from isotherm.base.effort import JULY, EffortTexts
from isotherm.base.request import ChatPrompt
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.bench.skills.item import Answer, Mode
from isotherm.bench.skills.registry import SKILLS, items
from isotherm.bench.skills.source import Source, Split
from isotherm.chat.deepseek_v4 import ENCODING
from isotherm.chat.encode import Encoder
from isotherm.model.deepseek_v4.tiny_tokenizer import BOS, EOS, MARKERS
from training.answers import read
from training.batches import LENGTHS, PAD, Batches, bucket, pad
from training.layout import Sample
from training.tokenizer import tokenizer_json

EVERY = [(skill, mode) for skill in SKILLS for mode in Mode]


@pytest.fixture(scope="module")
def server(description):
    return Encoder(
        TokenizerSpec(description, None, BOS, 0, EOS, (1,), (0, 1, 2), False, ENCODING, EffortTexts(JULY, ""))
    )


@pytest.mark.parametrize(("skill", "mode"), EVERY)
def test_a_sample_is_the_servers_prompt_and_the_answer(layout, server, description, skill, mode):
    decode = Tokenizer.from_str(description.decode()).decode
    for item in items(skill, 12, 2, Split.TEST, mode, 0.4):
        sample = layout.sample(item)
        prompt = server.encode(ChatPrompt(item.messages, item.tools, item.mode.variables)).ids
        start, end = sample.answers[-1]
        assert end == len(sample.ids)
        assert sample.ids[:start] == prompt
        assert sample.ids[start:].index(1) == end - start - 1
        assert read(decode(sample.ids[start:], skip_special_tokens=False), mode) == item.expected


def test_earlier_answers_are_learned_too(layout, description):
    decode, turns = Tokenizer.from_str(description.decode()).decode, set()
    for item in items("memory", 12, 2, Split.TEST, Mode.OFF, 0.4):
        sample = layout.sample(item)
        said = [decode(sample.ids[start:end], skip_special_tokens=False) for start, end in sample.answers]
        earlier = [message["content"] for message in item.messages if message["role"] == "assistant"]
        assert said == [text + EOS for text in (*earlier, item.expected.content)]
        turns.add(len(said))
    assert max(turns) > 1


def test_efforts_are_told_apart(layout):
    prompts = [layout.prompt(items("sums", 1, 0, Split.TRAIN, mode)[0])[1] for mode in Mode]
    starts = [text.removeprefix(BOS)[:35] for text in prompts]
    assert starts[2].startswith("Reasoning Effort: Absolute")
    assert starts[3].startswith("Reasoning Effort: Beyond")
    assert [text.endswith("<think>") for text in prompts] == [False, True, True, True]


@pytest.mark.parametrize(
    ("text", "mode", "answer"),
    [
        ("Yes." + EOS + "more", Mode.OFF, Answer("Yes.")),
        ("why</think>Yes.", Mode.LOW, Answer("Yes.", "why")),
        ("why and why and", Mode.LOW, Answer("", "why and why and")),
        (
            '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\nx</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
            Mode.OFF,
            Answer('\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\nx</｜DSML｜invoke>\n</｜DSML｜tool_calls>'),
        ),
        (
            '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="false">x'
            "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
            Mode.OFF,
            None,
        ),
    ],
)
def test_what_is_malformed_is_no_call(text, mode, answer):
    assert read(text, mode) == (answer or Answer(text))


def test_the_tokenizer_is_the_same_each_time_and_takes_digits_one_by_one(description):
    made = json.loads(description)
    assert made == tokenizer_json(900, items=400)
    tokenizer = Tokenizer.from_str(description.decode())
    assert tokenizer.get_vocab_size() == 900
    assert tokenizer.encode("1234").tokens == ["1", "2", "3", "4"]
    assert sorted(tokenizer.get_vocab().values()) == list(range(900))
    assert tokenizer.decode(tokenizer.encode("Größe — 5 ❤").ids) == "Größe — 5 ❤"
    assert [token["content"] for token in made["added_tokens"][-len(MARKERS) :]] == list(MARKERS)


def test_rows_are_padded_on_the_right_and_answers_masked():
    batch = pad([Sample([5, 6, 7, 8, 1], [(1, 2), (3, 5)]), Sample([5, 6, 1], [(2, 3)])], 8)
    assert batch.ids.tolist() == [[5, 6, 7, 8, 1, PAD, PAD, PAD], [5, 6, 1, PAD, PAD, PAD, PAD, PAD]]
    # The position before each answer's token is the one that says it.
    assert batch.answers.nonzero().tolist() == [[0, 0], [0, 2], [0, 3], [1, 1]]


def test_batches_are_of_one_size_and_the_same_for_a_seed(layout):
    first, second = (Batches(layout, Source(4, Split.TRAIN), tokens=1024) for _ in range(2))
    for _ in range(12):
        a, b = first.next(0.3), second.next(0.3)
        assert a.ids.equal(b.ids)
        assert a.ids.numel() == 1024
        assert a.answers.any(1).all()
    assert [bucket(length) for length in (1, 64, 65, 4096, 4097)] == [64, 64, 128, 4096, None]
    assert list(LENGTHS) == sorted(LENGTHS)
