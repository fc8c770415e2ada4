"""What tests of several rooms share: the small model's weights, fetched once and cached."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def smollm2() -> str:
    """Name of the served model, its weights on this machine; fetched by the real command where they are not."""
    command = [sys.executable, "-m", "isotherm", "models", "fetch", "smollm2-135m"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    return "smollm2-135m"
