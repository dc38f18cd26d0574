#!/usr/bin/env bash
# What motionkit's steps take on a card, as rows of a table for docs/kernels.md: a GRPO step at MDM's size next to a
# plain loop, a step of Kimodo's size and of Sa2VA-4B's, README's first command, and the kernels next to a copy of their
# bytes.
#
#     bash tests/benchmarks/gpu.sh | tee gpu.md
#
# At most eight minutes: a part that takes longer is stopped. Without a card all sizes are tiny, which shows that the
# script runs. It wants README's environment for the tests, the package of Kimodo's policy, and motionkit-regions[sa2va].
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
card=$(python -c 'import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else "")')
few=()
[[ -n "$card" ]] || few=(--num-steps 2 --set heldout.prompts=4 --set heldout.samples=2)

part() {  # part SECONDS COMMAND...: prints the rows of its output
  timeout "$1" "${@:2}" 2>"$scratch/errors" >"$scratch/out"
  local code=$?
  grep '^|' "$scratch/out"
  ((code == 0)) || { echo "| ${*:2:6} | failed with $code | |"; tail -n 3 "$scratch/errors" >&2; }
}

echo "${card:-no card, tiny sizes}, torch $(python -c 'import torch; print(torch.__version__)'), $(date +%F)"
echo
echo "| step | seconds | peak, GB |"
echo "|---|---|---|"
part 150 python -m tests.benchmarks.gpu mdm
part 110 python -m tests.benchmarks.gpu sa2va
part 90 python -m pytest -q -s plugins/motionkit-policy-kimodo/tests/benchmark_step.py
timeout 80 motionkit grpo --reward tmr-dense --preset cpu --out "$scratch/run" --json "${few[@]}" >"$scratch/run.json" 2>"$scratch/errors" &&
  python -c "import json, sys; print('| README\'s first command, all of it |', round(json.load(open(sys.argv[1]))['seconds'], 1), '| |')" "$scratch/run.json" ||
  { echo "| README's first command | failed | |"; tail -n 3 "$scratch/errors" >&2; }
if [[ -n "$card" ]]; then
  echo
  timeout 50 python -m pytest -q -m benchmark tests/benchmarks/test_kernels.py -k 4096 | sed -n '/motions/,$p'
fi
