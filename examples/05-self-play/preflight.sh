#!/usr/bin/env bash
# Check a Sa2VA with your data before anything is trained: bash preflight.sh MODEL DATASET PATH [OPTION...]
# MODEL is a folder or a hub id whose code you trust; DATASET is regions-jsonl, coco-refexp, sa2va-finetune or
# grasp-any-region.
set -euo pipefail
if (($# < 3)); then
  echo "usage: bash preflight.sh MODEL DATASET PATH [OPTION...]" >&2
  exit 2
fi
model="$1" dataset="$2" path="$3"
shift 3
self_play=(motionkit sa2va-rl --policy sa2va --policy.checkpoint "$model" --trust-remote-code
  --dataset "$dataset" --dataset.path "$path" --learning-rate 1e-5 "$@")
# What would be trained, from what, in how much memory.
"${self_play[@]}" --dry-run
# On 8 regions: masks count, log-probabilities agree, rewards differ, gradients reach every part.
"${self_play[@]}" --check
