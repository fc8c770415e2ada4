"""Every setting, route and metric stands in the reference, and no generated page is stale."""

import importlib.util
import re

import pytest

from isotherm.cli.main import VERBS
from isotherm.server.app import create_app
from isotherm.server.config import ServerConfig
from isotherm.settings.table import OTHER_ENVIRONMENT, TABLE
from rules.source import PACKAGE, ROOMS, ROOT, kept_files
from support.scripted_backend import ScriptedBackend

REFERENCE = ROOT / "docs" / "reference"


def load_generator():
    spec = importlib.util.spec_from_file_location("reference_generator", REFERENCE / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_a_generated_page_is_up_to_date(name):
    assert (REFERENCE / name).read_text(encoding="utf-8") == GENERATOR.PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_a_setting_is_documented(setting):
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    assert f"`{setting.name}`" in page
    assert f"`{setting.env}`" in page


@pytest.mark.parametrize("name", OTHER_ENVIRONMENT)
def test_another_variable_is_documented(name):
    assert f"`{name}`" in (REFERENCE / "settings.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def app():
    return create_app(ScriptedBackend(), ServerConfig())


def test_every_route_of_the_application_is_documented(app):
    page = (REFERENCE / "routes.md").read_text(encoding="utf-8")
    served = set(re.findall(r"`\w+ (/[^`]*)`", page))
    assert set(app.openapi()["paths"]) <= served
    assert {"/", "/docs", "/openapi.json", "/v1/chat/completions", "/metrics"} <= served


def test_every_exported_series_is_documented(app):
    page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    exported = re.findall(r"^# TYPE (\w+) \w+$", app.state.services.metrics.expose().decode(), re.MULTILINE)
    assert len(exported) > 20
    undocumented = [name for name in exported if f"`{name}`" not in page and not name.endswith("_created")]
    assert not undocumented


def test_every_variable_with_our_prefix_in_the_sources_is_a_known_one():
    known = {setting.env for setting in TABLE} | set(OTHER_ENVIRONMENT)
    for path in kept_files():
        if (path.suffix == ".py" and path.is_relative_to(ROOT / "src")) or path.suffix == ".md":
            found = set(re.findall(r"\bISOTHERM_[A-Z][A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")))
            unknown = {name for name in found - known if not name.startswith("ISOTHERM_SERVICE")}
            assert not unknown, f"{path.relative_to(ROOT)}: {unknown}"


def test_every_link_in_the_docs_leads_somewhere():
    for path in kept_files():
        if path.suffix == ".md":
            for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8")):
                assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: {target}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_page_that_the_tour_leads_to(room):
    assert (ROOT / "docs" / "rooms" / f"{room}.md").exists()
    assert f"(rooms/{room}.md)" in (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def test_every_file_that_a_page_of_a_room_names_exists():
    for room in ROOMS:
        page = (ROOT / "docs" / "rooms" / f"{room}.md").read_text(encoding="utf-8")
        for name in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE):
            for path in re.findall(r"`([\w/*]+(?:\.py|/))`", name):
                assert list((PACKAGE / room).glob(f"**/{path}")), f"docs/rooms/{room}.md names {path}"


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"isotherm {verb}" in text for verb in VERBS)
