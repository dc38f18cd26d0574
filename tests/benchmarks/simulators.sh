#!/usr/bin/env bash
# What the environments of simulators take and give: install an extra, collect frames of both classes, train a
# classifier and print its figures on episodes held out.
#
#     bash tests/benchmarks/simulators.sh mujoco|maniskill FOLDER
#
# FOLDER keeps the virtual environment, the runs and figures.txt; a second call installs nothing. The packages that
# draw without a window are in docs/environments.md. PYTHON=python3.12 chooses the interpreter.
set -euo pipefail
name="${1:?mujoco or maniskill}"
mkdir -p "${2:?a folder}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$2"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PIP_DISABLE_PIP_VERSION_CHECK=1

exec 3>&2
timed() {  # timed WHAT COMMAND...: its wall and CPU seconds go into figures.txt
  local TIMEFORMAT="$1: %0R s, %0U s of CPU"
  shift
  { time "$@" 2>&3; } 2>>figures.txt
}

install() {
  "${PYTHON:-python3}" -m venv venv
  venv/bin/pip install --quiet -c "$here/constraints.txt" torch
  venv/bin/pip install --quiet -c "$here/constraints.txt" -e "$here[$name]"
  venv/bin/pip list --format=freeze | grep -iE "^(torch|gymnasium|gymnasium-robotics|mujoco|mani_skill|sapien)=" >&2
  du -sh venv >&2
}

collect() {  # collect POLICY EPISODES/4: four copies, an episode of each in a step
  venv/bin/motionkit reward-collect --env "$name" --env.max-steps 20 --policy "$1" --out "$1" --overwrite \
    --num-envs 4 --set episodes.steps=20 --num-steps "$2" --set quota.positive_frames=900 --set quota.negative_frames=600
}

train() {
  venv/bin/motionkit reward-train --data scripted --data random --out classifier --overwrite --json >classifier.json
}

rm -f figures.txt
[[ -x venv/bin/motionkit ]] || timed install install
timed scripted collect scripted 12
timed random collect random 8
timed classifier train
venv/bin/python - classifier.json <<'END' >>figures.txt
import json, sys
told = json.load(open(sys.argv[1]))
print(*told["data"]["sources"], sep="\n")
print(told["verdict"])
print(", ".join(f"{key} {value:.4g}" for key, value in told["heldout"].items() if isinstance(value, (int, float))))
END
cat figures.txt
