"""Chat templates: what Hugging Face's templates rely on, what they refuse, and what they must not do to us."""

import time

import pytest

from isotherm.base.errors import RequestError, SetupError
from isotherm.chat.template import ChatTemplate
from support.cases import case

HELLO = [{"role": "user", "content": "Hi"}]


def rendered(source, messages=HELLO, **more):
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(messages, **more)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "<s>Hi</s>"),
        ("  {% if add_generation_prompt %}\ngo\n  {% endif %}\nend", "go\nend"),
        ("{{ {'a': '<ü>'} | tojson }}", '{"a": "<ü>"}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": 2\n}'),
        ("{% for m in messages %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% endfor %}", "1True1"),
        ("{% for i in range(5) %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "0134"),
        ("{% generation %}{{ messages[0]['role'] }}{% endgeneration %}", "user"),
        ("{{ tools is none }}{{ documents is none }}", "TrueTrue"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{% macro tag(x) %}<{{ x }}>{% endmacro %}{{ tag('a') ~ tag('b') }}", "<a><b>"),
        ("{{ ['a', 'b'] | join(', ') }}{{ 'x-y' | replace('-', '+') }}{{ ', '.join(['c', 'd']) }}", "a, bx+yc, d"),
        ("{{ '%s is %d' % ('a', 3) }}{{ '{}-{}'.format(1, 2) }}", "a is 31-2"),
        ("{{ [{'n': 'x'}] | map(attribute='n') | join }}{{ 'a\nb' | indent(2) }}", "xa\n  b"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{% for x in undefined_name %}{{ x }}{% endfor %}none", "none"),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_what_templates_rely_on(source, expected):
    assert rendered(source) == expected


def test_variables_of_the_request_reach_the_template():
    assert rendered("{{ enable_thinking }}", variables={"enable_thinking": False}) == "False"


@pytest.mark.parametrize("name", ["messages", "bos_token", "add_generation_prompt"])
def test_a_request_cannot_replace_our_own_variables(name):
    with pytest.raises(RequestError, match=name):
        rendered("x", variables={name: "y"})


def test_215_a_boolean_sent_as_text_is_refused():
    variables = case("215")["input"]["request"]["chat_template_kwargs"]
    with pytest.raises(RequestError, match="without quotes") as refusal:
        rendered("{% if thinking %}<think>{% endif %}", variables=variables)
    assert refusal.value.status == 400


def test_the_templates_own_words_reach_the_client():
    with pytest.raises(RequestError, match="roles must alternate") as refusal:
        rendered("{{ raise_exception('roles must alternate') }}")
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' + messages[0].nothing }}",
        "{{ messages[7].content }}",
        "{{ 1 // 0 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages[0].content.missing() }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_what_a_template_cannot_do_is_the_requests_error(source):
    with pytest.raises(RequestError, match="chat template"):
        rendered(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ 'a' * 1000000000000 }}",
        "{{ [0] * 1000000000000 }}",
        "{{ 1000000000000 * 'a' }}",
        "{{ 10 ** 1000000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ '\t'.expandtabs(1000000000) }}",
        "{{ 'a\nb' | indent(1000000000) }}",
        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ range(100000) | join('b' * 100000) }}",
        "{{ ('b' * 100000).join(range(100000) | map('string')) }}",
        "{{ range(1000000000000) | list }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'abcdefgh' * 1000 }}{% endfor %}",
    ],
)
def test_a_template_neither_hangs_nor_eats_memory(source):
    start = time.thread_time()
    with pytest.raises(RequestError, match="too much"):
        rendered(source)
    assert time.thread_time() - start < 3


def test_a_budget_is_for_one_rendering():
    template = ChatTemplate("{% for i in range(1000) %}{% endfor %}ok", bos_token=None, eos_token=None)
    for _ in range(300):
        assert template.render(HELLO) == "ok"


def test_a_broken_template_says_where():
    with pytest.raises(SetupError, match="line 2"):
        ChatTemplate("a\n{% if %}", bos_token=None, eos_token=None)
