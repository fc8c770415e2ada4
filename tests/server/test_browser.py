"""The pages in a real browser, headless Chromium: what a person does, and what nobody may do to them."""

from __future__ import annotations

import asyncio
import shutil
import time

import pytest
from playwright.sync_api import expect, sync_playwright

from isotherm.base.errors import EngineDied
from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, Usage
from support.scripted_backend import ScriptedBackend, piece
from support.serving import running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")

EVIL = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


GATE = asyncio.Event()
"""Opened by the test that has to see half an answer."""


def script(turn):
    """Answers by the last message: in two halves, for ever, with markup, or not at all."""
    asked = turn.prompt.messages[-1]["content"]
    if asked == "break":
        yield piece(turn, "half an ans")
        yield EngineDied("killed by signal 9")
    yield piece(turn, "They ask for it.", Channel.REASONING)
    if asked == "forever":
        while True:
            yield 0.02
            yield piece(turn, "on and ")
    texts = [EVIL, "\n```html\n", EVIL, "\n```\n", "`code`"] if asked == "evil" else ["Streaming", " text", " arrives"]
    for text in texts:
        yield piece(turn, text)
        yield GATE if asked == "wait" else 0.01
    yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 9, 0, 4)))


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def server():
    backend = ScriptedBackend(script, name="tiny", generation_config={"top_p": 0.9})
    with running(backend, default_sampling={"temperature": 0.6}) as found:
        yield found


@pytest.fixture
def page(browser, server):
    """The chat page, connected. Nothing may be asked of another host, and nothing may fail quietly."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    found = context.new_page()
    found.set_default_timeout(60_000)
    foreign, complaints = [], []
    found.on("request", lambda request: request.url.startswith(server.url) or foreign.append(request.url))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    found.goto(server.url)
    expect(found.locator("#status")).to_have_class("dot ready")
    yield found
    found.unroute_all()
    context.close()
    assert not foreign
    assert not [text for text in complaints if "status of" not in text], complaints


def say(page, text):
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")


def origins(page):
    expect(page.locator("#origins")).to_be_visible()
    rows = page.locator("#origins tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def test_text_streams_and_the_answer_shows_who_decided(page, server):
    say(page, "wait")
    text = page.locator(".message.assistant .text").last
    expect(text).to_have_text("Streaming")
    expect(page.locator("#stop")).to_be_visible()
    server.call(GATE.set)
    expect(text).to_have_text("Streaming text arrives")
    table = origins(page)
    assert table["temperature"] == ["0.6", "operator"]
    assert table["top_p"] == ["0.9", "model"]
    assert table["min_p"] == ["0", "protocol"]
    assert page.locator("#count").inner_text() == "9"
    assert float(page.locator("#rate").inner_text()) > 1
    assert page.locator("#finish").inner_text() == "stop"
    expect(page.locator(".message.assistant summary")).to_be_visible()
    assert page.locator("#temperature-default").inner_text() == "0.6 by operator"
    assert server.backend.turns[0].sampling.temperature == 0.6


def test_a_changed_temperature_is_sent_and_shown_and_cleared_is_not_sent(page, server):
    page.fill("#temperature", "0")
    page.fill("#max_tokens", "7")
    say(page, "hello")
    assert origins(page)["temperature"] == ["0 (greedy)", "request"]
    assert origins(page)["max_tokens"] == ["7", "request"]
    page.click("#reset")
    say(page, "again")
    expect(page.locator("#origins tbody tr").first).to_contain_text("operator")
    assert [turn.sampling.temperature for turn in server.backend.turns] == [0, 0.6]
    assert len(server.backend.turns[1].prompt.messages) == 3


def test_the_stop_button_and_escape_stop_the_engine(page, server):
    for number, stop in enumerate((lambda: page.click("#stop"), lambda: page.keyboard.press("Escape"))):
        say(page, "forever")
        expect(page.locator(".message.assistant .text").last).to_contain_text("on and on")
        stop()
        expect(page.locator("#send")).to_be_visible()
        deadline = time.monotonic() + 10
        while not server.backend.generations[number].aborted:
            assert time.monotonic() < deadline
            page.wait_for_timeout(20)
        assert page.locator("#finish").inner_text() == "you"
        assert page.locator(".message .error:visible").count() == 0


def test_shift_enter_starts_a_line_and_empty_messages_are_not_sent(page, server):
    page.press("#prompt", "Enter")
    page.fill("#prompt", "one")
    page.press("#prompt", "Shift+Enter")
    page.keyboard.type("two")
    page.press("#prompt", "Enter")
    expect(page.locator("#send")).to_be_visible()
    expect(page.locator(".message.user .text")).to_have_text("one\ntwo")
    assert [turn.prompt.messages[-1]["content"] for turn in server.backend.turns] == ["one\ntwo"]


def test_markup_from_either_side_stays_text(page):
    say(page, "evil")
    expect(page.locator(".message.assistant pre code")).to_contain_text("<script>")
    expect(page.locator("#origins")).to_be_visible()
    say(page, EVIL)
    expect(page.locator(".message.user .text").last).to_have_text(EVIL)
    assert page.title() == "Isotherm"
    assert page.locator("#messages img, #messages script, #conversations img").count() == 0


def test_a_broken_answer_says_why_and_can_be_tried_again(page, server):
    say(page, "break")
    expect(page.locator(".message .error")).to_contain_text("killed by signal 9")
    expect(page.locator(".message.assistant .text").last).to_have_text("half an ans")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".message .error")).to_contain_text("killed by signal 9")
    assert len(server.backend.turns) == 2
    page.click("#more summary")
    page.fill("#system", "x" * 2000)
    say(page, "hello")
    expect(page.locator(".message .error").last).to_contain_text("this model's context holds 1000")


def test_conversations_are_kept_chosen_and_deleted(page, server):
    say(page, "first talk")
    expect(page.locator("#origins")).to_be_visible()
    page.click("#new")
    say(page, "second talk")
    expect(page.locator("#send")).to_be_visible()
    page.reload()
    expect(page.locator("#conversations li")).to_have_count(2)
    page.get_by_role("button", name="first talk", exact=True).click()
    expect(page.locator(".message.user .text")).to_have_text("first talk")
    expect(page.locator(".message.assistant .text").last).to_have_text("Streaming text arrives")
    page.get_by_role("button", name="Delete conversation first talk").click()
    page.reload()
    expect(page.locator("#conversations li")).to_have_count(1)
    assert len(server.backend.turns) == 2


def test_every_control_has_a_name_and_dark_is_dark(page):
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, textarea, button')].filter(each => !(each.labels?.length"
        " || each.textContent.trim() || each.getAttribute('aria-label'))).map(each => each.outerHTML)"
    )
    assert nameless == []
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert page.evaluate(colour) != light
    page.reload()
    assert page.evaluate(colour) != light


def test_a_small_screen_shows_everything_behind_two_buttons(page):
    page.set_viewport_size({"width": 400, "height": 700})
    say(page, "hello")
    expect(page.locator(".message.assistant .text").last).to_have_text("Streaming text arrives")
    for element in ("#prompt", "#send", ".bar"):
        expect(page.locator(element)).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.click("#show-inspector")
    expect(page.locator("#origins caption")).to_be_visible()
    page.locator("#messages").click(position={"x": 10, "y": 10})
    page.click("#show-sidebar")
    expect(page.locator("#new")).to_be_in_viewport()


def test_a_key_is_asked_for_and_used(browser):
    with running(ScriptedBackend(script, name="tiny"), api_keys=("secret",)) as server:
        page = browser.new_page()
        page.goto(server.url)
        expect(page.locator("#model")).to_contain_text("API key")
        page.fill("#key", "secret")
        page.press("#key", "Tab")
        expect(page.locator("#model")).to_have_text("tiny")
        say(page, "hello")
        expect(page.locator("#origins")).to_be_visible()
        assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
        page.close()


def test_the_documents_page_shows_every_route_and_field(browser, server):
    page = browser.new_page()
    foreign = []
    page.on("request", lambda request: request.url.startswith(server.url) or foreign.append(request.url))
    page.goto(server.url + "/docs")
    expect(page.locator("#contents li")).to_have_count(10)
    chat = page.locator("section.route").filter(has_text="/v1/chat/completions")
    expect(chat.locator("table").first).to_contain_text("temperature")
    expect(chat.locator("table").first).to_contain_text("number from 0 to 2 or null")
    assert not foreign
    page.close()
