"""Items and their checkers: the same for the same seed, apart between splits, fair to answers in other words."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from isotherm.bench.skills import calls, lists, manners, memory, objects, page, recall, sums
from isotherm.bench.skills.item import Answer, Call, Mode
from isotherm.bench.skills.registry import SKILLS, items, right
from isotherm.bench.skills.source import Source, Split, split_of, templates
from training.corpus import held_out

PARTS = {
    "recall": [recall.FACTS, recall.QUESTIONS],
    "lists": list(lists.TASKS.values()),
    "sums": [sums.PLAIN, *sums.STORIES.values()],
    "page": [page.TASKS],
    "json": [objects.TASKS],
    "calls": [tool[4] for tool in calls.TOOLS],
    "manners": [*manners.RULES.values(), manners.REQUESTS],
    "memory": [memory.STATEMENTS, memory.QUESTIONS],
}


def some(skill, count=40, seed=3, split=Split.TEST, mode=Mode.OFF, size=0.5):
    return items(skill, count, seed, split, mode, size)


def said(item, content):
    return right(item, Answer(content))


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("mode", Mode)
def test_the_expected_answer_is_right_and_the_same_each_time(skill, mode):
    first, second = (some(skill, mode=mode) for _ in range(2))
    assert first == second
    assert all(right(item, item.expected) for item in first)
    assert all(bool(item.expected.reasoning) is (mode is not Mode.OFF) for item in first)
    json.dumps([[item.facts, item.messages, item.tools] for item in first])


@pytest.mark.parametrize("skill", SKILLS)
def test_an_answer_to_another_item_is_mostly_wrong(skill):
    found = some(skill, 200)
    pairs = [(a, b) for a, b in pairwise(found) if a.facts != b.facts]
    assert sum(right(a, b.expected) for a, b in pairs) < 0.05 * len(pairs)


@pytest.mark.parametrize("skill", SKILLS)
def test_another_seed_gives_other_items(skill):
    assert some(skill, seed=3) != some(skill, seed=4)


def test_names_and_templates_are_of_one_split():
    for split in Split:
        source = Source(0, split)
        assert {split_of(name.lower()) for name in source.names(200)} == {split}
    train, test = (set(Source(1, split).words(2000)) for split in Split)
    assert not train & test


@pytest.mark.parametrize("skill", PARTS)
def test_both_splits_have_templates_and_none_is_in_both(skill):
    for parts in PARTS[skill]:
        train, test = (templates(split, *parts) for split in Split)
        assert train
        assert test
        assert not set(train) & set(test)


def test_pairs_of_a_sum_are_of_one_split():
    asked = {
        split: {(item.expected.content) for item in some("sums", 2000, split=split, mode=Mode.LOW)} for split in Split
    }
    assert not asked[Split.TRAIN] & asked[Split.TEST]


def test_reasoning_of_sums_follows_the_effort():
    length = {
        mode: sum(len(item.expected.reasoning.split()) for item in some("sums", 200, mode=mode))
        for mode in (Mode.LOW, Mode.HIGH, Mode.MAX)
    }
    assert 2 < length[Mode.HIGH] / length[Mode.LOW] < 5
    assert 6 < length[Mode.MAX] / length[Mode.LOW] < 14


def test_every_step_of_a_sum_is_true():
    for item in [*some("sums", 400, mode=Mode.MAX, size=1.0), *some("sums", 400, split=Split.TRAIN, mode=Mode.MAX)]:
        for line in item.expected.reasoning.replace(", ", ". ").split(". "):
            left, equals, value = line.rpartition(": ")[2].partition(" = ")
            if equals:
                assert eval(left) == int(value.split(",")[0].rstrip("."))


def test_recall_takes_other_words_and_refuses_other_values():
    for item in some("recall"):
        value, other = item.facts["value"], item.facts["others"][0]
        assert said(item, f"It is {value}")
        assert said(item, f"{value}!")
        assert not said(item, f"It is {value} or {other}")
        assert not said(item, f"It is {other}")
        assert not said(item, value[:-1])
        assert not said(item, value + "n")


def test_recall_grows_to_thousands_of_words():
    words = [len(some("recall", 1, size=size)[0].messages[0]["content"].split()) for size in (0.0, 0.5, 1.0)]
    assert words[0] < 100 < words[1] < 500 < 2000 < words[2] < 4000


def test_lists_take_other_separators_and_refuse_another_order():
    for item in some("lists"):
        result = item.facts["result"]
        assert said(item, " / ".join(result).upper() + ".")
        assert not said(item, ", ".join(result[:-1]))
        assert len(result) == 1 or result == result[::-1] or not said(item, ", ".join(reversed(result)))
        assert item.facts["kind"] != "count" or said(item, lists.NUMBER_WORDS[int(result[0])])


def test_sums_judge_the_last_number():
    for item in some("sums"):
        result = item.facts["result"]
        assert said(item, f"The answer is {result}")
        assert said(item, f"{result:,}.")
        assert not said(item, f"{result + 10}")
        assert not said(item, f"{result} is not {result + 1}")
        assert not said(item, "")


@pytest.mark.parametrize(
    "broken",
    [
        ('id="', 'id="x'),
        ("function ", "function x"),
        ('onclick="', 'onclick="x'),
        ("</button>", ""),
        ("</body>", ""),
        ("}\n", "\n"),
        ('("', '("x'),
    ],
    ids=str,
)
def test_a_page_that_speaks_of_what_is_not_there_is_wrong(broken):
    for item in some("page"):
        page_text = item.expected.content
        assert said(item, f"```html\n{page_text}\n```")
        assert said(item, page_text.replace("function ", "function  ").replace("function  ", "function "))
        assert not said(item, page_text.replace(*broken))
        assert not said(item, page_text.replace(item.facts["seen"][0], "Other"))


def test_a_page_with_an_id_twice_is_wrong():
    for item in some("page"):
        line = next(line for line in item.expected.content.splitlines() if ' id="' in line)
        assert not said(item, item.expected.content.replace(line, f"{line}\n{line}"))


def test_json_may_be_ordered_and_spaced_otherwise_but_nothing_else():
    for item in some("json"):
        value = item.facts["value"]
        assert said(item, json.dumps(dict(reversed(value.items())), indent=2) + "\n")
        assert not said(item, f"Here it is: {json.dumps(value)}")
        assert not said(item, json.dumps({**value, "more": 1}))
        assert not said(item, json.dumps(dict(list(value.items())[1:])))
        for key, wrong in (("age", str), ("member", int)):
            if key in value:
                assert not said(item, json.dumps({**value, key: wrong(value[key])}))


def test_calls_in_any_order_but_none_missing_invented_or_changed():
    kinds = set()
    for item in some("calls", 100):
        wanted = item.expected.calls
        kinds.add(len(wanted))
        assert right(item, replace(item.expected, calls=wanted[::-1]))
        assert not right(item, replace(item.expected, calls=(*wanted, Call("get_time", {}))))
        if wanted:
            first = wanted[0]
            assert not right(item, Answer("I cannot do that."))
            assert not right(item, replace(item.expected, calls=(Call("other", first.arguments), *wanted[1:])))
            changed = {key: f"{value}x" for key, value in first.arguments.items()}
            assert not right(item, replace(item.expected, calls=(Call(first.name, changed), *wanted[1:])))
            assert not right(item, replace(item.expected, calls=wanted[1:]))
        else:
            assert not said(item, "")
    assert kinds == {0, 1, 2}


def test_no_offered_tool_fits_where_none_is_called():
    unfit = [item for item in some("calls", 200) if item.expected.content == calls.NONE_FITS]
    assert unfit
    for item in unfit:
        assert right(item, Answer("I have no tool for this."))
        assert not right(item, Answer("Done."))
        name = item.tools[0]["function"]["name"]
        assert not right(item, Answer("", calls=(Call(name, {}),)))


def test_manners_refuse_the_plain_answer():
    for item in some("manners", 100):
        kind, phrase, word = (item.facts[key] for key in ("kind", "phrase", "word"))
        good = {
            "quoted": f"„{phrase}!“",
            "ending": f"{phrase}! {word.upper()}.",
            "beginning": f"{word}: {phrase}",
        }.get(kind, f"Oh, {phrase.lower()}")
        assert said(item, good)
        assert kind not in ("quoted", "ending", "beginning") or not said(item, phrase)
        assert kind not in ("german", "english") or not said(item, f"Hi {phrase.split()[-1]}")


def test_memory_refuses_names_of_other_things():
    for item in some("memory"):
        assert said(item, f"{item.facts['name']}, as you told me")
        for other in item.facts["others"]:
            assert not said(item, f"It is {other}")
            assert not said(item, f"{item.facts['name']} or {other}")


def test_held_out_items_cover_all_skills_and_modes():
    found = held_out(4)
    assert {(item.skill, item.mode) for item in found} == {(skill, mode) for skill in SKILLS for mode in Mode}
