#!/usr/bin/env bash
# A BVH file whose joints are called "Left Leg" and "Left Arm".
#
# One would guess: BVH ends a line after the name, so the name is all that stands behind JOINT, blanks included; or a
# reader refuses the file.
# What happens: three's BVHLoader and the package bvh take the first word. Both joints are called "Left", nothing is
# said, and in three both tracks of rotation move the first of them: the arm stays still, the leg turns by a mixture.
# So a writer that wants to be read puts something else for blanks.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit three@0.187.0
python3 -m venv venv
venv/bin/pip install --quiet bvh==0.3

cat > two.bvh <<'BVH'
HIERARCHY
ROOT Hips
{
	OFFSET 0 0 0
	CHANNELS 3 Zrotation Xrotation Yrotation
	JOINT Left Leg
	{
		OFFSET 0 -10 0
		CHANNELS 3 Zrotation Xrotation Yrotation
		End Site
		{
			OFFSET 0 -10 0
		}
	}
	JOINT Left Arm
	{
		OFFSET 0 10 0
		CHANNELS 3 Zrotation Xrotation Yrotation
		End Site
		{
			OFFSET 0 10 0
		}
	}
}
MOTION
Frames: 1
Frame Time: 0.1
0 0 0 30 0 0 0 0 40
BVH

cat > read.mjs <<'JS'
import { readFileSync } from 'node:fs';
import { AnimationMixer, REVISION } from 'three';
import { BVHLoader } from 'three/addons/loaders/BVHLoader.js';

const { skeleton, clip } = new BVHLoader().parse(readFileSync('two.bvh', 'utf8'));
const mixer = new AnimationMixer(skeleton.bones[0]);
mixer.clipAction(clip).play();
mixer.setTime(0);
const [, leg, , arm] = skeleton.bones;
console.log(`three ${REVISION}: joints`, skeleton.bones.map((bone) => bone.name), 'tracks', clip.tracks.map((track) => track.name));
const degrees = (bone) => (2 * Math.acos(Math.min(1, Math.abs(bone.quaternion.w))) * 180) / Math.PI;
console.log('leg turned by', degrees(leg).toFixed(1), 'of 30 degrees, arm by', degrees(arm).toFixed(1), 'of 40');
const same = leg.name === 'Left' && arm.name === 'Left' && degrees(arm) === 0 && Math.abs(degrees(leg) - 30) > 1;
if (!same) throw new Error('this is not what was found');
JS
node read.mjs

venv/bin/python - <<'PY'
from importlib.metadata import version

from bvh import Bvh

names = Bvh(open("two.bvh").read()).get_joints_names()
print("bvh", version("bvh"), "joints", names)
assert names == ["Hips", "Left", "Left"], "this is not what was found"
PY
