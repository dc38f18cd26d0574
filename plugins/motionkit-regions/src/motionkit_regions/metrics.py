"""Metrics of captions and masks of regions, and of self-play on them."""

from __future__ import annotations

from dataclasses import replace

from motionkit.plugins import Metric

_LENGTH = ("shorter", "longer")

_ALL = (
    # self-play of captions and masks
    Metric(
        "regions/cycle_iou_greedy",
        "1",
        "up",
        "Of the likeliest words: IoU of the region and the policy's own mask of its caption.",
        "cycle IoU",
    ),
    Metric(
        "regions/judge_iou_greedy",
        "1",
        "up",
        "The same with the mask of the policy before training.",
        "cycle IoU by the frozen judge",
    ),
    Metric(
        "regions/cycle_iou",
        "1",
        "up",
        "Of sampled captions: IoU of the region and the policy's own mask.",
        "cycle IoU, sampled",
    ),
    Metric(
        "regions/judge_iou",
        "1",
        "up",
        "The same of sampled captions, with the mask of the policy before training.",
        "cycle IoU by the frozen judge, sampled",
    ),
    Metric(
        "regions/unique_greedy",
        "1",
        "up",
        "Share of captions that are true of the object and of no other; a wrong word is a failure.",
        "uniqueness",
    ),
    Metric("regions/unique", "1", "up", "regions/unique_greedy, of sampled captions.", "uniqueness, sampled"),
    Metric(
        "regions/attributes_right_greedy",
        "1",
        "none",
        "Share of attributes and relations that captions name as they are.",
        "attributes named rightly",
    ),
    Metric(
        "regions/attributes_wrong_greedy",
        "1",
        "down",
        "Share of those that they name otherwise.",
        "attributes named wrongly",
    ),
    Metric(
        "regions/attributes_wrong",
        "1",
        "down",
        "regions/attributes_wrong_greedy, of sampled captions.",
        "attributes named wrongly, sampled",
    ),
    Metric(
        "regions/attributes_left_out_greedy",
        "1",
        "none",
        "Share of those that they do not name.",
        "attributes left out",
    ),
    Metric(
        "regions/over_specified_greedy",
        "1",
        "none",
        "Share of captions that would fit no other object without one of their attributes either.",
        "over-specification",
    ),
    Metric("regions/words_greedy", "1", "none", "Mean number of words.", "words of a caption", words=_LENGTH),
    Metric(
        "regions/words",
        "1",
        "none",
        "regions/words_greedy, of sampled captions.",
        "words of a caption, sampled",
        words=_LENGTH,
    ),
    Metric("regions/meteor_greedy", "1", "up", "METEOR of the caption to the data's.", "METEOR"),
    Metric("regions/meteor", "1", "up", "regions/meteor_greedy, of sampled captions.", "METEOR, sampled", digits=3),
    Metric(
        "regions/cider_greedy",
        "1",
        "up",
        "CIDEr-D to the data's, 0 to 10; n-grams are weighted by these regions.",
        "CIDEr-D",
    ),
    Metric("regions/cider", "1", "up", "regions/cider_greedy, of sampled captions.", "CIDEr-D, sampled", digits=3),
    Metric(
        "regions/referring_iou",
        "1",
        "up",
        "IoU of a region and the policy's mask of the data's caption of it.",
        "referring IoU",
    ),
    Metric(
        "regions/ciou",
        "1",
        "up",
        "Pixels in both masks over pixels in either, of all regions together; large regions count more.",
        "cIoU",
    ),
    Metric("regions/giou", "1", "up", "Mean IoU of masks of the data's captions (referring IoU).", "gIoU", digits=3),
    Metric(
        "regions/precision_<tenths>0",
        "1",
        "up",
        "Share of regions with an IoU of at least that.",
        "precision at 0.<tenths>",
    ),
    Metric(
        "regions/<attribute>_right_greedy",
        "1",
        "none",
        "Share of captions that name the attribute as it is.",
        "<attribute> named rightly",
    ),
    Metric(
        "regions/<attribute>_wrong_greedy",
        "1",
        "down",
        "Share of captions that name the attribute otherwise.",
        "<attribute> named wrongly",
    ),
    Metric(
        "regions/<attribute>_left_out_greedy",
        "1",
        "none",
        "Share of captions that do not name the attribute.",
        "<attribute> left out",
    ),
    Metric(
        "regions/no_target",
        "1",
        "up",
        "Share of captions of absent objects for which nothing is drawn.",
        "absent objects: nothing drawn",
    ),
    Metric("supervised/loss", "1", "down", "Loss of the data's own captions and masks, before its weight."),
    Metric(
        "supervised/unknown_words", "1", "down", "Share of their words that the policy does not know: left out of it."
    ),
    Metric(
        "<loop>/cycle_iou", "1", "up", "IoU of a region and the partner's mask of the sampled caption, mean of a step."
    ),
    Metric("rollout/temperature", "1", "none", "Temperature that captions are sampled with."),
    Metric("balance/<loop>", "1", "none", "Factor on the weight of a loop, from its gradient or its progress."),
    Metric("grad/cos_<loop>_<other>", "1", "none", "Cosine between the gradients of two loops; below 0 they conflict."),
    Metric("<loop>/loss", "1", "down", "What a loop of self-play adds to loss/total, before its weight."),
    Metric(
        "<loop>/policy_loss", "1", "none", "Clipped surrogate of a loop; 0 on average with one step for each rollout."
    ),
    Metric(
        "<loop>/kl_div", "1", "none", "KL of a loop's actions to the policy as it started: of a word, or of a number."
    ),
    Metric("<loop>/reward_mean", "1", "up", "Reward of a loop, mean over the step."),
    Metric(
        "<loop>/reward_std", "1", "none", "Standard deviation of a loop's reward within a group, mean over the groups."
    ),
    Metric("<loop>/reward/<name>", "1", "up", "One reward of a loop before weighting, mean over the step."),
    Metric(
        "<loop>/zero_std_frac", "1", "none", "Share of groups whose rewards are all equal: nothing is learned of them."
    ),
    Metric("<loop>/clip_frac", "1", "none", "Share of a loop's decisions whose ratio was clipped."),
    Metric("<loop>/entropy", "1", "none", "Entropy of the distributions that words were drawn from, nats."),
    Metric("<loop>/caption_len", "1", "none", "Words of a sampled caption."),
    Metric(
        "<loop>/distinct",
        "1",
        "none",
        "Distinct sampled captions over all of the step; towards 0 the policy collapses.",
    ),
    Metric("<loop>/cut", "1", "none", "Share of sampled captions that did not end before the longest length."),
    Metric("<loop>/empty_mask_frac", "1", "none", "Share of masks of a loop that are empty."),
)

METRICS = tuple(
    replace(metric, short=True, digits=3) if metric.name.startswith("regions/") else metric for metric in _ALL
)
"""Figures of regions have three decimals; results of runs leave their first part out."""
