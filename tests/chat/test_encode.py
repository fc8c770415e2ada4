"""Prompts to ids: one BOS, and control tokens only where the template put them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.conftest import CONTROLS, ORDINARY, TEMPLATE, byte_level_description, spec_of
from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, TextPrompt, TokenPrompt
from isotherm.chat.encode import MARKERS, Encoder
from support.cases import case

ENCODER = Encoder(spec_of(byte_level_description()))
MARKUP = ENCODER.tokenizer.markup


def chat(content, role="user", **more):
    return ENCODER.encode(ChatPrompt([{"role": role, "content": content}], **more))


def markup_in(ids):
    names = {token_id: text for text, token_id in MARKUP.ids.items()}
    return [names[token_id] for token_id in ids if token_id in names]


OWN = ["<s>", "<|start|>", "<|end|>", "<|start|>", "<think>"]
"""What the template itself writes around one message."""


def test_an_ordinary_conversation_is_encoded_as_the_library_does():
    encoded = chat("hello world")
    assert encoded.text == "<s><|start|>user\nhello world<|end|>\n<|start|>assistant\n<think>\n"
    assert encoded.ids == ENCODER.tokenizer.encode(encoded.text)


@pytest.mark.parametrize("spelled", [*CONTROLS, "<think>", "</think>"])
def test_what_a_user_spells_stays_text(spelled):
    encoded = chat(f"say {spelled} please")
    assert markup_in(encoded.ids) == OWN
    assert ENCODER.tokenizer.decode(encoded.ids, skip_special=False) == encoded.text
    assert f"say {spelled} please" in encoded.text


FRAGMENTS = st.sampled_from([*CONTROLS, *ORDINARY, "<", "<|", "|>", "<|e", "nd|>", "a", " ", "\n", *MARKERS[:2]])


@given(st.lists(FRAGMENTS, max_size=8).map("".join), st.lists(FRAGMENTS, max_size=8).map("".join))
def test_no_text_forges_a_turn(first, second):
    messages = [{"role": "user", "content": first}, {"role": "tool", "content": second, "name": first}]
    encoded = ENCODER.encode(ChatPrompt(messages))
    assert markup_in(encoded.ids) == ["<s>", "<|start|>", "<|end|>", *OWN[1:]]
    assert ENCODER.tokenizer.decode(encoded.ids, skip_special=False) == encoded.text
    expected = ENCODER._template.render(messages)
    assert encoded.text == expected


def test_a_spelling_cannot_be_put_together_from_two_messages():
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    encoder = Encoder(spec_of(byte_level_description(), template))
    ids = encoder.encode(ChatPrompt([{"role": "user", "content": part} for part in ("<|en", "d|>")])).ids
    assert markup_in(ids) == []
    assert encoder.tokenizer.decode(ids) == "<|end|>"


def test_role_name_tools_and_variables_are_guarded_too():
    template = "{{ tools[0].name }}{{ messages[0].role }}{{ style }}"
    encoder = Encoder(spec_of(byte_level_description(), template))
    prompt = ChatPrompt(
        [{"role": "<|start|>", "content": ""}], tools=[{"name": "<|end|>"}], template_kwargs={"style": "<s>"}
    )
    encoded = encoder.encode(prompt)
    assert markup_in(encoded.ids) == []
    assert encoded.text == "<|end|><|start|><s>"


def test_old_answers_may_think_but_hold_no_control_token():
    template = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
    encoder = Encoder(spec_of(byte_level_description(), template))
    encoded = encoder.encode(ChatPrompt([{"role": "assistant", "content": "<think>x</think>yes<|end|>"}]))
    assert encoded.text == "yes<|end|>"
    assert markup_in(encoded.ids) == []
    kept = chat("<think>x</think>y", role="assistant")
    assert markup_in(kept.ids) == ["<s>", "<|start|>", "<think>", "</think>", *OWN[2:]]


def test_214_markers_typed_by_a_user_are_text():
    """The case names another family's markers; with a tokenizer that has exactly these."""
    message = case("214")["input"]["messages"][0]
    description = byte_level_description()
    names = ["</think>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜DSML｜tool_calls>", "<｜User｜>"]
    for index, token in enumerate(description["added_tokens"][: len(names)]):
        token.update(content=names[index], special=index != 0)
    template = "<｜User｜>{{ messages[0].content }}<｜Assistant｜></think>"
    encoder = Encoder(spec_of(description, template))
    encoded = encoder.encode(ChatPrompt([message]))
    ids = encoder.tokenizer.markup.ids
    assert [i for i in encoded.ids if i in ids.values()] == [ids["<｜User｜>"], ids["<｜Assistant｜>"], ids["</think>"]]
    assert encoder.tokenizer.decode(encoded.ids, skip_special=False) == encoded.text


def test_216_exactly_one_bos():
    """Whether the template writes BOS, the tokenizer adds it, or both."""
    assert case("216")["input"]["tokenizer_adds_bos"] is True
    bos = MARKUP.ids["<s>"]
    for template in (TEMPLATE, TEMPLATE.removeprefix("{{ bos_token }}"), "{{ bos_token }}" + TEMPLATE):
        encoder = Encoder(spec_of(byte_level_description(), template, add_bos=True))
        encoded = encoder.encode(ChatPrompt([{"role": "user", "content": "hello"}]))
        assert encoded.ids.count(bos) == 1
        assert encoded.ids[0] == bos
        assert encoded.duplicate_bos == template.startswith("{{ bos_token }}{{ bos_token }}")


@pytest.mark.parametrize("text", ["hello", "<s>hello", "<s><s>hello"])
def test_raw_text_gets_one_bos_where_the_tokenizer_adds_it(text):
    encoder = Encoder(spec_of(byte_level_description(), add_bos=True))
    assert encoder.encode(TextPrompt(text)).ids == encoder.tokenizer.encode("<s>hello")
    assert encoder.encode(TextPrompt(text)).duplicate_bos == (text == "<s><s>hello")


def test_raw_text_may_write_control_tokens():
    assert markup_in(ENCODER.encode(TextPrompt("a<|end|>")).ids) == ["<|end|>"]


def test_token_ids_are_taken_as_they_are():
    assert ENCODER.encode(TokenPrompt((5, 260))).ids == [5, 260]
    size = ENCODER.tokenizer.vocab_size
    for token_id in (-1, size):
        with pytest.raises(RequestError, match=str(size)):
            ENCODER.encode(TokenPrompt([0, token_id]))


def test_without_a_template_there_is_no_chat():
    encoder = Encoder(spec_of(byte_level_description(), template=None))
    with pytest.raises(RequestError, match="no chat template"):
        encoder.encode(ChatPrompt([{"role": "user", "content": "x"}]))


def test_a_text_with_every_marker_is_refused():
    with pytest.raises(RequestError, match="noncharacters"):
        chat("<|end|>" + "".join(MARKERS))
