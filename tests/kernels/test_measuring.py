"""Measuring the kernels: what is found must hold together, and a wrong result must be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from isotherm.kernels.dispatch import LATENT_REFERENCE, select_latent
from isotherm.kernels.measuring import attention, measure, rest
from isotherm.kernels.measuring.case import Case
from isotherm.kernels.measuring.roof import Roof, Work

FAST = select_latent(torch.device("cpu"), 512)
SMALL: Sequence[Case] = measure.cases(measure.OPS, quick=True)


def test_a_roof_is_whichever_takes_longer() -> None:
    roof = Roof(bandwidth=10.0, vector=100.0, matrix=1000.0)
    assert roof.seconds(Work(100, 100)) == 10
    assert roof.seconds(Work(1, 2000)) == 20
    assert roof.seconds(Work(1, 2000, matrix=True)) == 2
    assert Roof(10.0, 100.0, 0.0).seconds(Work(1, 2000, matrix=True)) == 20


def test_every_operation_has_a_case() -> None:
    assert {case.op for case in SMALL} == set(measure.OPS)
    assert {case.op for case in measure.cases(["turn", "mix"], quick=False)} == {"turn", "mix"}


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.op)
def test_fast_versions_and_the_reference_pass_and_a_wrong_result_does_not(case: Case) -> None:
    torch.manual_seed(0)
    data = case.make()
    result = data.run(FAST, 0)
    assert data.error(result) <= data.tolerance
    assert data.error(data.run(LATENT_REFERENCE, 0)) <= data.tolerance
    assert data.error(spoilt(result)) > data.tolerance


def spoilt(result: Any) -> Any:
    """One number of a result changed; of the indexer's choice, its row 0 instead of the best."""
    if isinstance(result, tuple):
        return (spoilt(result[0]), *result[1:])
    wrong = result.clone()
    wrong.view(-1)[:512] = 0 if wrong.dtype == torch.int32 else 1
    return wrong


def test_a_report_holds_together() -> None:
    shown: list[str] = []
    report = measure.measure_cases([rest.turn_case(2)], shown.append, seconds=0.001, threads=1)
    (found,) = report.measurements
    assert report.clean
    assert found.fast.fastest <= found.fast.median
    assert found.predicted == report.roof.seconds(Work(found.bytes, found.flops))
    assert any(text.startswith("turn") for text in shown)
    document = report.as_json()
    assert document["threads"] == 1
    assert document["measurements"][0]["over_roof"] == found.fast.median / found.predicted
    assert not replace(found, error=1.0).right


def test_an_interrupt_leaves_what_was_measured() -> None:
    def make() -> None:
        raise KeyboardInterrupt

    cases = [rest.turn_case(1), Case("attend", "", Work(1, 1), make)]
    report = measure.measure_cases(cases, lambda _: None, seconds=0.001, threads=1)
    assert report.interrupted
    assert not report.clean
    assert [each.op for each in report.measurements] == ["turn"]


def test_work_is_what_the_layouts_say() -> None:
    (case,) = attention.attend_cases(("fp8_e4m3",), (1,))
    assert case.work.bytes == 640 * 584 + 64 * 512 * 4
    assert case.work.flops == 2 * 2 * 64 * 640 * 512
