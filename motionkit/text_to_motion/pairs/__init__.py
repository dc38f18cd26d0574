"""What trainings on pairs of a text and a motion share: crops, changed copies, retrieval."""
