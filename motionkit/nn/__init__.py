"""Neural building blocks: attention, feature-wise modulation, exponential averages, adapters, image encoders."""

from motionkit.nn._ema import EMA
from motionkit.nn._resnet10 import ResNet10, SpatialLearnedEmbeddings, resnet_map
from motionkit.nn._transformer import (
    TransformerDecoder,
    TransformerEncoder,
    native_keys,
    sinusoidal_table,
    stock_keys,
)
from motionkit.nn._unrolled import Film, UnrolledLinear, WindowAttention, unrolled
from motionkit.nn.lora import (
    adapter_parameters,
    adapters_merged,
    adapters_off,
    add_adapters,
    has_adapters,
    merged_state,
)

__all__ = [
    "EMA", "Film", "ResNet10", "SpatialLearnedEmbeddings", "TransformerDecoder", "TransformerEncoder", "UnrolledLinear",
    "WindowAttention", "adapter_parameters", "adapters_merged", "adapters_off", "add_adapters", "has_adapters",
    "merged_state", "native_keys", "resnet_map", "sinusoidal_table", "stock_keys", "unrolled",
]  # fmt: skip
