"""Function calls of DeepSeek-V4: what is a call, what stays text, and that no cut of the stream changes it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.chat.reasoning import Opening
from support.cases import case
from support.completions import TOOLS, VECTORS, parse, pieces_of, whole

B = "<｜DSML｜tool_calls>\n"
E = "</｜DSML｜tool_calls>"


def value(name, text, string="true"):
    return f'<｜DSML｜parameter name="{name}" string="{string}">{text}</｜DSML｜parameter>\n'


def call(name, *values):
    return f'<｜DSML｜invoke name="{name}">\n{"".join(values)}</｜DSML｜invoke>\n'


def read(text, **how):
    """Content and calls with their arguments read."""
    (content, calls), *_ = parse([text], **how)[1:]
    return content, [(name, json.loads(arguments)) for name, arguments in calls]


SPLITTER = "reasoning.py decides: white space where thinking begins, thinking that never closed, later tags"
OTHERWISE = {
    "leading_newlines": SPLITTER,
    "think_end_twice": SPLITTER,
    "stop_in_reasoning": SPLITTER,
    "call_in_reasoning": "thinking that never closed is content: the call is found, its thought is content",
    "call_in_reasoning_then_end": "what is thought is not done: only text behind the thinking holds calls",
    "reasoning_loop": "white space at the end of thinking that was cut is kept",
    "unknown_function": "a call that was not offered is text, not dropped",
    "unknown_and_known": "a call that was not offered is text, not dropped",
    "near_name": "a call that was not offered is text, not dropped",
    "name_empty": "a call that was not offered is text, not dropped",
    "marker_in_answer": "a tag that an answer mentions is text, not dropped",
    "bad_json_cut": "what is no JSON is given as text: the function may complain, nothing is lost",
    "empty_json": "as bad_json_cut",
    "nan": "as bad_json_cut",
    "role_token_in_answer": "forged turns are not the parser's business",
}
"""Vectors that are answered in another way than their makers recommend, with the reason."""


def wanted(vector):
    answer = {name: vector["recommended"][name] for name in ("reasoning", "content", "tool_calls", "finish_reason")}
    calls = [entry | {"arguments": json.loads(entry["arguments"])} for entry in answer["tool_calls"]]
    return answer | {"tool_calls": calls}


def answer_to(vector, chunk=0):
    opening = Opening.THINKING if vector["starts_in"] == "reasoning" else Opening.ANSWER
    tools = [tool for tool in TOOLS if tool["function"]["name"] in vector["offered"]]
    return whole(vector["text"], opening, finish=vector["engine_finish"], tools=tools, chunk=chunk)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["id"])
def test_a_vector_gets_the_recommended_answer(vector):
    assert (answer_to(vector) == wanted(vector)) == (vector["id"] not in OTHERWISE)
    if vector["well_formed"]:
        assert vector["id"] not in OTHERWISE


@pytest.mark.parametrize("chunk", [1, 3, 17])
def test_a_vector_s_answer_does_not_depend_on_its_pieces(chunk):
    for vector in VECTORS["vectors"]:
        assert answer_to(vector, chunk) == answer_to(vector), vector["id"]


@pytest.mark.parametrize("number", ["123", "124", "126", "129", "131", "133", "142"])
@pytest.mark.parametrize("chunk", [0, 1, 3, 17])
def test_cases(number, chunk):
    given, expected = case(number)["input"], case(number)["expect"]
    opening = Opening.THINKING if given["prompt_tail"].endswith("<think>") else Opening.ANSWER
    found = whole(given["raw"], opening, finish=given["finish"], tools=given["tools"], chunk=chunk)
    # In 131 thinking never closed: it is content, as without a call; a stream has shown it as thinking before.
    assert found["content"] == expected.get("reasoning", found["content"])
    for name in ("tool_calls", "content", "finish_reason"):
        assert found[name] == expected.get(name, found[name])


def test_a_name_that_never_ends_is_text():
    """Case 129."""
    raw = case("129")["input"]["raw"]
    assert read(raw) == (raw, [])


def test_a_call_cut_by_length_is_set_apart():
    """Case 146."""
    given = case("146")["input"]
    found = parse([given["raw"]], natural=False, tools=given["tools"])
    assert found[1] == ("", [])
    assert found[2] == given["raw"]


def test_what_was_not_offered_stays_text_to_the_character():
    """Case 149, a near miss, is the same: no name is guessed."""
    text = "Well.\n\n" + B + call("rm_rf", value("path", "/")) + E + "\n"
    assert read(text) == (text, [])


def test_a_call_inside_the_value_of_an_unknown_call_is_no_call():
    text = B + call("write", value("text", "\n" + call("ping"))) + E
    assert read(text) == (text, [])


def test_a_call_inside_a_value_is_no_call():
    inner = "see:\n" + B + '<｜DSML｜invoke name="ping">'
    assert read(B + call("calc", value("expr", inner)) + E) == ("", [("calc", {"expr": inner})])


def test_tags_with_other_bars_are_text_in_a_value():
    inner = "a\n</|DSML|parameter>\n</|DSML|invoke>"
    assert read(B + call("calc", value("expr", inner)) + E) == ("", [("calc", {"expr": inner})])


def test_of_a_known_and_an_unknown_call_each_gets_its_own():
    unknown = call("rm_rf", value("path", "/")).rstrip()
    content, calls = read("Ok.\n\n" + B + call("ping") + unknown + "\n" + E)
    assert (content, calls) == ("Ok.\n" + unknown, [("ping", {})])


def test_one_call_at_most_where_no_more_are_wanted():
    found = parse([B + call("ping") + call("calc", value("expr", "1")) + E], single=True)
    assert found[1] == ("", [("ping", "{}")])
    assert 'name="calc"' in found[3]


def test_a_block_that_the_prompt_opened():
    assert read(call("ping") + E, opened=True) == ("", [("ping", {})])
    assert read("No call.", opened=True) == ("No call.", [])
    assert read(E, opened=True) == ("", [])


def test_a_stop_string_inside_a_value_leaves_no_complete_call():
    found = parse([B + '<｜DSML｜invoke name="disk">\n<｜DSML｜parameter name="mount" string="true">/a'], natural=False)
    assert (found[1], found[4]) == (("", []), 0)
    assert found[2].endswith("/a")


def test_text_in_a_call_that_was_begun_is_set_aside():
    found = parse([B + call("disk", value("mount", "/a"), "and then\n") + E])
    assert found[1] == ("", [("disk", '{"mount": "/a"}')])
    assert found[3] == "and then"


def test_a_call_that_holds_neither_parameters_nor_an_object_is_text():
    for body in ("please\n", '{"mount": }\n', "[1]\n", '{"a": 1}\n' + value("mount", "/a")):
        text = B + call("disk", body) + E
        assert read(text) == (text, [])


@pytest.mark.parametrize(
    ("name", "string", "written", "meant"),
    [
        ("depth", "true", "3", 3),
        ("depth", "true", "three", "three"),
        ("depth", "false", "three", "three"),
        ("depth", "false", "[1", "[1"),
        ("depth", "false", "", ""),
        ("depth", "false", "NaN", "NaN"),
        ("depth", "false", "1e999", float("inf")),
        ("depth", "false", "null", None),
        ("human", "false", "False", False),
        ("human", "true", "true", True),
        ("mount", "false", '{"a": 1}', '{"a": 1}'),
        ("mount", "false", '"/a"', "/a"),
        ("mount", "true", "null", "null"),
        ("any", "true", "3", "3"),
        ("any", "false", "None", None),
        ("unheard_of", "false", "[1, 2]", [1, 2]),
        ("opts", "false", "[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_are_always_json(name, string, written, meant):
    assert read(B + call("disk", value(name, written, string)) + E) == ("", [("disk", {name: meant})])


def test_alternatives_in_a_schema():
    properties = {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "t": {"type": ["string", "null"]}}
    schema = {"type": "object", "properties": properties}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    text = B + call("f", value("n", "4"), value("t", "4", "false")) + E
    assert read(text, tools=tools) == ("", [("f", {"n": 4, "t": "4"})])


def test_text_is_passed_on_at_once():
    """Of a long text only what may become a tag is held back."""
    text = B + '<｜DSML｜invoke name="calc">\n<｜DSML｜parameter name="expr" string="true">a < b'
    found = parse(list(text), natural=False)
    assert found[0][-1] == ("arguments", 0, '{"expr": "a < b')


def test_a_flood_of_new_lines_is_not_hidden():
    assert read("a" + "\n" * 40 + B + call("ping") + E) == ("a" + "\n" * 24, [("ping", {})])


FRAGMENTS = st.sampled_from(
    (
        *(B, E, call("ping"), call("nope", value("a", "b"))),
        call("disk", value("mount", "/a\n"), value("depth", "3", "false")),
        *("<", "\n", "\n\n", " ", "｜DSML｜", "<｜DSML｜", "</｜DSML｜", "invoke", '"', "}", "text", "😀", '{"a": 1}'),
        *('<｜DSML｜invoke name="calc">', '<｜DSML｜parameter name="expr" string="true">'),
        *("</｜DSML｜parameter>", "</｜DSML｜invoke>"),
    )
)
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(st.lists(FRAGMENTS, max_size=14).map("".join), SIZES, st.booleans(), st.booleans(), st.booleans())
def test_no_cut_changes_anything(text, sizes, natural, single, opened):
    how = {"natural": natural, "single": single, "opened": opened}
    found = parse(pieces_of(text, sizes), **how)
    assert found == parse([text], **how)
    assert found == parse(list(text), **how)
    for name, arguments in found[1][1]:
        assert name in ("disk", "calc", "ping")
        assert isinstance(json.loads(arguments), dict)


@given(st.text().filter(lambda text: "｜DSML｜" not in text), SIZES)
def test_text_without_markup_is_untouched(text, sizes):
    found = parse(pieces_of(text, sizes))
    assert found[1] == (text, [])


@given(st.dictionaries(st.text("abc_", min_size=1), st.text().filter(lambda text: "｜DSML｜" not in text)), SIZES)
def test_arguments_come_back_as_they_were_written(arguments, sizes):
    written = [value(name, text) for name, text in arguments.items()]
    tools = [{"type": "function", "function": {"name": "f"}}]
    found = parse(pieces_of("\n\n" + B + call("f", *written) + E, sizes), tools=tools)
    assert found[1][0] == ""
    assert [(name, json.loads(text)) for name, text in found[1][1]] == [("f", arguments)]
