"""Walks a pickle opcode by opcode."""

from __future__ import annotations

import gc
import pickle
import struct

from motionkit.weights._gate import OBJECTS, Gate
from motionkit.weights._node import Node
from motionkit.weights._opcodes import OPERATIONS


def walk(gate: Gate) -> int:
    """Walk to the end of the pickle that `gate` was made for.

    Returns:
        The position after it.

    Raises:
        MotionkitError: It is refused.
        Exception: It is damaged.
    """
    collects = gc.isenabled()
    gc.disable()  # No node contains itself, so the cyclic garbage collector is off: it would double the time.
    try:
        return _walk(gate)
    except (IndexError, KeyError, struct.error) as error:
        raise EOFError("its pickle ends too early, or is no pickle.") from error
    finally:
        if collects:
            gc.enable()


def _walk(gate: Gate) -> int:
    operations, stop = OPERATIONS, pickle.STOP[0]
    for _ in range(OBJECTS):
        try:
            code = gate.data[gate.at]
        except IndexError:  # the end of a frame, between two opcodes: continue behind it
            if gate.at != len(gate.data):
                raise
            gate.data = gate.whole
            code = gate.data[gate.at]
        gate.at += 1
        if code in operations:
            operation, argument = operations[code]
            operation(gate, argument)
        elif code == stop:
            if len(gate.stack) != 1 or gate.marks or (type(gate.stack[0]) is Node and not gate.stack[0].data):
                gate.refuse("it leaves parts unused")
            return gate.at
        else:
            gate.refuse(f"it uses the opcode {bytes([code])!r}")
    gate.refuse(f"it has more than {OBJECTS} opcodes")
