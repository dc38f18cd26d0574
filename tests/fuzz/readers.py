"""Every way in for foreign files, by name."""

from __future__ import annotations

from . import of_data, of_models, of_motions, of_runs, of_weights

READERS = {
    reader.name: reader
    for reader in (*of_motions.READERS, *of_weights.READERS, *of_models.READERS, *of_data.READERS, *of_runs.READERS)
}
