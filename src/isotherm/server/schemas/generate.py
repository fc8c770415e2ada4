"""Fields that chat and legacy completions share: how to sample, when to stop, how to deliver."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from isotherm.policy.fields import FIELDS
from isotherm.server.schemas.base import LARGEST, Body, Quick, bounds, conflict

MAX_STOPS = 16
MAX_CHOICES = 128
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 10_000
_TOKEN_ID = r"^[0-9]{1,9}$"


class StreamOptions(Body):
    """How a stream is delivered."""

    include_usage: bool | None = Field(None, description="One more chunk before [DONE], with usage and no choices.")


def _few_biases(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_BIASES:
        raise ValueError(f"at most {MAX_BIASES} token ids are possible, not {len(value)}")
    return value


TokenId = Annotated[int, Field(ge=0, le=LARGEST)]
LogitBias = Annotated[
    dict[Annotated[str, Field(pattern=_TOKEN_ID)], Annotated[float, Field(ge=-100, le=100)]],
    BeforeValidator(_few_biases),
]
StopText = Annotated[str, Field(min_length=1)]


class GenerateBody(Body):
    """Base of both generation requests. Nothing here has a default: policy decides what an absent field means."""

    model: str | None = Field(None, description="Name of the served model; may be left out.")
    temperature: Annotated[float | None, bounds("temperature")] = None
    top_p: Annotated[float | None, bounds("top_p")] = None
    top_k: Annotated[int | None, bounds("top_k")] = None
    min_p: Annotated[float | None, bounds("min_p")] = None
    repetition_penalty: Annotated[float | None, bounds("repetition_penalty")] = None
    presence_penalty: Annotated[float | None, bounds("presence_penalty")] = None
    frequency_penalty: Annotated[float | None, bounds("frequency_penalty")] = None
    n: Annotated[int | None, Field(ge=1, le=MAX_CHOICES)] = Field(None, description="Choices for each prompt.")
    seed: Annotated[int | None, Field(ge=-(2**63), le=2**63 - 1)] = Field(
        None,
        description="Makes sampling repeatable; each of n choices has its own stream. Absent: drawn and shown.",
    )
    stop: StopText | Annotated[list[StopText], Quick] | None = Field(
        None, description=f"Up to {MAX_STOPS} texts that end the answer; not looked for inside reasoning."
    )
    stop_token_ids: Annotated[list[TokenId], Quick] | None = Field(None, description="Token ids that end the answer.")
    logit_bias: LogitBias | None = Field(None, description="Added to the logits of token ids, -100 to 100.")
    min_tokens: Annotated[int | None, Field(ge=0, le=LARGEST)] = Field(
        None, description="No end before this many tokens."
    )
    ignore_eos: bool | None = Field(None, description="Go on after the model's end token.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, stop: str | list[str] | None) -> str | list[str] | None:
        if isinstance(stop, list) and len(stop) > MAX_STOPS:
            raise ValueError(f"at most {MAX_STOPS} stop texts are possible, not {len(stop)}")
        return stop

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> GenerateBody:
        if self.stream_options is not None and not self.stream:
            raise conflict("stream_options", "needs stream: true")
        return self

    def sampling_values(self) -> dict[str, Any]:
        """The sampling values that the client set, null left out."""
        sent = self.model_fields_set & FIELDS.keys()
        return {name: value for name in sent if (value := getattr(self, name)) is not None}

    def stops(self) -> tuple[str, ...]:
        """The stop texts as a tuple."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
