"""Neural building blocks: attention, exponential averages, adapters."""

from motionkit.nn._ema import EMA
from motionkit.nn._rows import differences, squared_length, zeroed
from motionkit.nn._transformer import (
    TransformerDecoder,
    TransformerEncoder,
    native_keys,
    sinusoidal_table,
    stock_keys,
)
from motionkit.nn.lora import (
    adapter_parameters,
    adapters_merged,
    adapters_off,
    add_adapters,
    has_adapters,
    merged_state,
)

__all__ = [
    "EMA", "TransformerDecoder", "TransformerEncoder", "adapter_parameters", "adapters_merged", "adapters_off",
    "add_adapters", "differences", "has_adapters", "merged_state", "native_keys", "sinusoidal_table", "squared_length",
    "stock_keys", "zeroed",
]  # fmt: skip
