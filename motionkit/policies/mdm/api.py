"""The heavy half of the MDM policy: opening, making, saving and exporting it. Imports torch."""

from motionkit.policies.mdm._condition import MDMCondition
from motionkit.policies.mdm._dip import DiPPolicy
from motionkit.policies.mdm._factory import (
    export_checkpoint,
    new_policy,
    open_encoder,
    open_policy,
)
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.policies.mdm._policy import MDMPolicy
from motionkit.policies.mdm._released import read_released
from motionkit.policies.mdm._stock import export_stock

__all__ = [
    "DiPPolicy",
    "MDMCondition",
    "MDMNetwork",
    "MDMPolicy",
    "export_checkpoint",
    "export_stock",
    "new_policy",
    "open_encoder",
    "open_policy",
    "read_released",
]
