"""What both generation routes do with a job: open it, count it, and deliver it streamed or whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.backend import Generation
from isotherm.server.context import services_of
from isotherm.server.job import Job
from isotherm.server.meter import Meter, count_policy
from isotherm.server.shapes import Shape
from isotherm.server.stream import Delivery, EventStream, whole_answer

SAMPLING_HEADER = "x-isotherm-sampling"


async def respond(request: Request, job: Job, shape_of: Callable[[Sequence[Generation]], Shape]) -> Response:
    """Runs ``job`` and answers.

    Raises:
        RequestError: before anything was sent: refused, broken off, timed out.
        ClientGone: the client left.
    """
    services = services_of(request)
    generations = await job.open(services.backend)
    warned = [*job.warnings, *job.clamps]
    count_policy(services.metrics, job.values, job.turns[0].sampling.greedy, warned)
    route = request.scope["route"].path
    meter = Meter(services.metrics, route, request.state.started, len(job.turns), job.n)
    delivery = Delivery(services, job, generations, shape_of(generations), meter)
    headers = {SAMPLING_HEADER: msgspec.json.encode(job.sampling_report()).decode()}
    if job.stream:
        return EventStream(delivery, headers, request.state.request_id)
    body = await whole_answer(delivery, request.receive)
    return Response(body, 200, headers, "application/json")
