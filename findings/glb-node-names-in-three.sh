#!/usr/bin/env bash
# A glTF file with the nodes "mixamorig:Hips", "Leg.L" and "LegL", as Mixamo and Blender name bones.
#
# One would guess: an object of the scene has the name of its node, so that a bone is found by the name in the file.
# What happens: three's GLTFLoader takes ":", ".", "/", "[" and "]" out of every name, since its tracks use them, and
# numbers what becomes equal: "mixamorigHips", "LegL" and "LegL_1". A look-up by the name in the file finds nothing;
# one by "LegL" finds the other leg. Babylon and pygltflib keep the names.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit three@0.187.0

cat > read.mjs <<'JS'
import { REVISION } from 'three';
import { GLTFLoader } from 'three/addons/loaders/GLTFLoader.js';

const names = ['mixamorig:Hips', 'Leg.L', 'LegL'];
const [hips, ...legs] = names.map((name) => ({ name }));
const file = JSON.stringify({
  asset: { version: '2.0' }, scene: 0, scenes: [{ nodes: [0] }],
  nodes: [{ ...hips, children: [1, 2] }, ...legs.map((leg, i) => ({ ...leg, translation: [i, 0, 0] }))],
});
const { scene } = await new GLTFLoader().parseAsync(file, '');
const seen = [];
scene.traverse((object) => object !== scene && seen.push(object.name));
console.log(`three ${REVISION}: in the file`, names, 'in the scene', seen);
const asked = names.map((name) => scene.getObjectByName(name)?.position.x);
console.log('places found by the names of the file:', asked);
const same = seen.join() === 'mixamorigHips,LegL,LegL_1' && asked[0] === undefined && asked[1] === undefined && asked[2] === 0;
if (!same) throw new Error('this is not what was found');
JS
node read.mjs
