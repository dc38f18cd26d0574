"""Neural building blocks: attention, feature-wise modulation, exponential averages, adapters."""

from motionkit.nn._ema import EMA
from motionkit.nn._film import Film
from motionkit.nn._keys import native_keys, stock_keys
from motionkit.nn._lora import (
    adapter_parameters,
    adapters_merged,
    adapters_off,
    add_adapters,
    has_adapters,
    merged_state,
)
from motionkit.nn._positions import sinusoid, sinusoidal_table
from motionkit.nn._transformer import TransformerDecoder, TransformerEncoder
from motionkit.nn._window_attention import WindowAttention

__all__ = [
    "EMA",
    "Film",
    "TransformerDecoder",
    "TransformerEncoder",
    "WindowAttention",
    "adapter_parameters",
    "adapters_merged",
    "adapters_off",
    "add_adapters",
    "has_adapters",
    "merged_state",
    "native_keys",
    "sinusoid",
    "sinusoidal_table",
    "stock_keys",
]
