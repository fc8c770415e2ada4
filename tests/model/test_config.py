"""config.json in all its dialects, and what is refused because it would change the output unseen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.base.errors import SetupError
from isotherm.model.config import tensor_shapes
from isotherm.model.huggingface_config import config_from_huggingface
from support.checkpoints import LLAMA3, TINY, config_json


def read(**changes):
    raw = {**config_json(), **changes}
    return config_from_huggingface({key: value for key, value in raw.items() if value is not ...}, "config.json")


def test_a_plain_config():
    assert read() == TINY


def test_defaults_are_those_of_transformers():
    config = read(num_key_value_heads=..., rms_norm_eps=..., rope_theta=..., tie_word_embeddings=..., head_dim=32)
    assert (config.num_kv_heads, config.rms_norm_eps, config.rope_theta) == (4, 1e-6, 10_000.0)
    assert (config.tie_word_embeddings, config.head_dim) == (False, 32)


@pytest.mark.parametrize("dtype", ["dtype", "torch_dtype"])
def test_the_stored_dtype_has_two_names(dtype):
    assert read(**{dtype: "bfloat16"}).stored_dtype == "bfloat16"


def test_rope_values_are_read_from_the_old_and_the_new_place():
    old = read(rope_theta=5e5, rope_scaling=LLAMA3)
    new = read(rope_theta=..., rope_parameters={**LLAMA3, "rope_theta": 5e5})
    assert old == new
    assert old.rope_scaling == LLAMA3
    assert old.rope_theta == 5e5


@pytest.mark.parametrize("plain", [None, {}, {"rope_type": "default"}, {"type": "default", "factor": 1.0}])
def test_plain_rope(plain):
    assert read(rope_scaling=plain).rope_scaling is None


def test_yarn_knows_its_original_context():
    scaling = read(rope_scaling={"type": "yarn", "factor": 4.0, "beta_fast": 16}).rope_scaling
    assert scaling == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 16}


def test_qwen2_has_biases_without_saying_so():
    config = read(architectures=["Qwen2ForCausalLM"], attention_bias=..., use_sliding_window=False, sliding_window=64)
    assert (config.attention_bias, config.attention_output_bias) == (True, False)
    shapes = tensor_shapes(config)
    assert shapes["model.layers.0.self_attn.k_proj.bias"] == (32,)
    assert "model.layers.0.self_attn.o_proj.bias" not in shapes


def test_mistral_without_a_window():
    assert read(architectures=["MistralForCausalLM"], sliding_window=None).architecture == "MistralForCausalLM"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel.*supported are LlamaForCausalLM"),
        ({"architectures": ..., "model_type": "bert"}, "bert"),
        ({"hidden_size": ...}, "hidden_size must be"),
        ({"hidden_size": "64"}, "hidden_size must be"),
        ({"hidden_size": 0}, "hidden_size must be"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be"),
        ({"hidden_size": 66}, "not a multiple of num_attention_heads"),
        ({"num_key_value_heads": 3}, "not a multiple of num_key_value_heads"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 64}, "sliding-window"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised safetensors"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, "'dynamic' is not supported.*default, linear"),
        ({"rope_scaling": {**LLAMA3, "factor": None}}, "factor of rope scaling 'llama3'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "positive"),
        ({"rope_scaling": [1]}, "must be an object"),
    ],
)
def test_what_cannot_be_served_right_is_refused_by_name(changes, complaint):
    with pytest.raises(SetupError, match=f"config.json: .*{complaint}"):
        read(**changes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from([*config_json(), "head_dim", "rope_scaling", "rope_parameters", "sliding_window", "dtype"]), JSON
)
def test_any_json_in_any_field_is_read_or_refused(field, value):
    try:
        config = read(**{field: value})
    except SetupError as error:
        assert "config.json" in str(error)  # noqa: PT017  (both outcomes are right)
    else:
        assert config.hidden_size > 0
