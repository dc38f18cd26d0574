#!/usr/bin/env bash
# A glTF file with a left hand at x = 0.5 and a right hand at x = -0.5, read by Babylon to measure where joints are.
#
# One would guess: the loader brings a file into the scene's axes, or keeps the file's; either way a node's own position
# and its position in the world agree about which hand is at positive x.
# What happens: nodes keep the file's numbers, below a root that mirrors the scene (its default is left-handed). In the
# world the left hand is at x = -0.5, so a program that takes joints from there has left and right swapped, in a body
# that looks right on the screen. With scene.useRightHandedSystem = true it has the file's.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit @babylonjs/core@9.28.0 @babylonjs/loaders@9.28.0

cat > read.mjs <<'JS'
import { NullEngine } from '@babylonjs/core/Engines/nullEngine.js';
import { LoadAssetContainerAsync } from '@babylonjs/core/Loading/sceneLoader.js';
import { Scene } from '@babylonjs/core/scene.js';
import '@babylonjs/loaders/glTF/2.0/index.js';

const file = JSON.stringify({
  asset: { version: '2.0' }, scene: 0, scenes: [{ nodes: [0] }],
  nodes: [{ name: 'Hips', children: [1, 2] }, { name: 'LeftHand', translation: [0.5, 1, 0] }, { name: 'RightHand', translation: [-0.5, 1, 0] }],
});
const engine = new NullEngine();
const found = {};
for (const rightHanded of [false, true]) {
  const scene = new Scene(engine);
  scene.useRightHandedSystem = rightHanded;
  const container = await LoadAssetContainerAsync(`data:${file}`, scene, { pluginExtension: '.gltf' });
  container.addAllToScene();
  const hand = container.transformNodes.find((node) => node.name === 'LeftHand');
  hand.computeWorldMatrix(true);
  found[rightHanded] = [hand.position.x, hand.getAbsolutePosition().x];
  console.log(`right-handed scene ${rightHanded}: left hand at x =`, hand.position.x, 'below its parent,', hand.getAbsolutePosition().x, 'in the world');
}
if (found[false].join() !== '0.5,-0.5' || found[true].join() !== '0.5,0.5') throw new Error('this is not what was found');
JS
node read.mjs
