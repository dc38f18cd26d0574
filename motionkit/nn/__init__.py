"""Neural building blocks: attention, feature-wise modulation, exponential averages, adapters, image encoders."""

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
from motionkit.nn._resnet10 import ResNet10, SpatialLearnedEmbeddings, resnet_map
from motionkit.nn._transformer import TransformerDecoder, TransformerEncoder
from motionkit.nn._unrolled import UnrolledLinear, unrolled
from motionkit.nn._window_attention import WindowAttention

__all__ = [
    "EMA",
    "Film",
    "ResNet10",
    "SpatialLearnedEmbeddings",
    "TransformerDecoder",
    "TransformerEncoder",
    "UnrolledLinear",
    "WindowAttention",
    "adapter_parameters",
    "adapters_merged",
    "adapters_off",
    "add_adapters",
    "has_adapters",
    "merged_state",
    "native_keys",
    "resnet_map",
    "sinusoid",
    "sinusoidal_table",
    "stock_keys",
    "unrolled",
]
