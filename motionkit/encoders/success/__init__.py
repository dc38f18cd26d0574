"""Success classifiers: from one frame of each camera to the probability that a task is fulfilled."""

from motionkit.encoders.success._card import Card, Check, Pretrained, Status, in_words, refuse_sizes
from motionkit.encoders.success._classifier import CHUNK, SuccessClassifier
from motionkit.encoders.success._find import COMMAND, load_classifier, newest_classifier_run
from motionkit.encoders.success._guide import load_guide, read_pretrained, start_from
from motionkit.encoders.success._native import ARTIFACT, DOCUMENT, read_card, save_classifier
from motionkit.encoders.success._network import ARCHITECTURES, Architecture, SuccessNetwork, as_images

__all__ = [
    "ARCHITECTURES",
    "ARTIFACT",
    "CHUNK",
    "COMMAND",
    "DOCUMENT",
    "Architecture",
    "Card",
    "Check",
    "Pretrained",
    "Status",
    "SuccessClassifier",
    "SuccessNetwork",
    "as_images",
    "in_words",
    "load_classifier",
    "load_guide",
    "newest_classifier_run",
    "read_card",
    "read_pretrained",
    "refuse_sizes",
    "save_classifier",
    "start_from",
]
