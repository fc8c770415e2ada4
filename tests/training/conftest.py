"""One small tokenizer for all tests of the training."""

import json

import pytest

from training.layout import Layout
from training.tokenizer import tokenizer_json


@pytest.fixture(scope="session")
def description() -> bytes:
    return json.dumps(tokenizer_json(900, items=400)).encode()


@pytest.fixture(scope="session")
def layout(description) -> Layout:
    return Layout(description)
