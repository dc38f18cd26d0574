"""The heavy half of the MDM policy: opening, making, saving and exporting it. Imports torch."""
