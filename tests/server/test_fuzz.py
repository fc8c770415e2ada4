"""Requests made from our own OpenAPI document, right and wrong ones: none may end in a 5xx or outside the document."""

from __future__ import annotations

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from isotherm.server.app import create_app
from isotherm.server.config import ServerConfig
from support.scripted_backend import ScriptedBackend

APP = create_app(ScriptedBackend(), ServerConfig())
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
schema = schemathesis.openapi.from_asgi("/openapi.json", APP)


@schema.parametrize()
@hypothesis.settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
def test_every_route_answers_within_its_document(case):
    case.call_and_validate(checks=list(CHECKS))
