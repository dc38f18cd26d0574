#!/usr/bin/env bash
# A BVH file whose root has an OFFSET of 90 and stands, by its position channel, at 90.
#
# One would guess: the position channel says where the joint is, so the root stands at 90. (The format was never
# specified; Blender, MotionBuilder's exporter and most papers read it so for the root.)
# What happens: three's BVHLoader adds OFFSET and channel, so the body floats at 180; the same for every other joint
# with position channels, whose bone becomes twice as long. upc-pymotion reads 90. Both are silent.
# So the OFFSET of a root is written as 0, where all readers agree.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit three@0.187.0
python3 -m venv venv
venv/bin/pip install --quiet upc-pymotion==0.3.4 numpy==2.4.6

cat > high.bvh <<'BVH'
HIERARCHY
ROOT Hips
{
	OFFSET 0 90 0
	CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
	JOINT Spine
	{
		OFFSET 0 10 0
		CHANNELS 3 Zrotation Xrotation Yrotation
		End Site
		{
			OFFSET 0 5 0
		}
	}
}
MOTION
Frames: 1
Frame Time: 0.1
0 90 0 0 0 0 0 0 0
BVH

cat > read.mjs <<'JS'
import { readFileSync } from 'node:fs';
import { REVISION } from 'three';
import { BVHLoader } from 'three/addons/loaders/BVHLoader.js';

const { clip } = new BVHLoader().parse(readFileSync('high.bvh', 'utf8'));
const [, height] = clip.tracks.find((track) => track.name === 'Hips.position').values;
console.log(`three ${REVISION}: the root stands at`, height);
if (height !== 180) throw new Error('this is not what was found');
JS
node read.mjs

venv/bin/python - <<'PY'
from importlib.metadata import version

from pymotion.io.bvh import BVH

file = BVH()
file.load("high.bvh")
height = float(file.data["positions"][0, 0, 1])
print("upc-pymotion", version("upc-pymotion"), "the root stands at", height)
assert height == 90.0, "this is not what was found"
PY
