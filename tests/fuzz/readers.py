"""Every way in for foreign files, by name."""

from __future__ import annotations

from . import of_data, of_models, of_motions, of_regions, of_runs, of_weights

READERS = {
    reader.name: reader
    for room in (of_motions, of_weights, of_models, of_data, of_regions, of_runs)
    for reader in room.READERS
}
