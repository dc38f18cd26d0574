// Which way is up in a dropped file, weighed by the body in it: motionkit/rigs/upright.py is the same, and has the reasons.
// NAMES.up holds its numbers.

const UP_LOOKS = 32;
const UP_LONGEST = 36000;

const dot3 = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const apart3 = (a, b) => a.map((value, i) => value - b[i]);
const unit3 = (a) => a.map((value) => value / (Math.hypot(...a) || 1));
const axisUp = (axis) => NAMES.up.turns[axis][1];
const middleOf = (values) => [...values].sort((a, b) => a - b)[(values.length - 1) >> 1];
const spanOf = (values) => quantile(values, 0.95) - quantile(values, 0.05);

function axisWords(axis) {
  return `${axis.at(-1).toUpperCase()} ${axis.length > 1 ? 'down' : 'up'}`;
}

// The axis along which a direction points by at least so much, or null.
function axisAlong(direction, least) {
  const sizes = direction.map(Math.abs);
  const place = sizes.indexOf(Math.max(...sizes));
  return sizes[place] > least ? `${direction[place] < 0 ? '-' : ''}${'xyz'[place]}` : null;
}

// The places of joints and middles of pairs of joints in a frame; `null` where a role is not known.
function bodyIn(file, roles) {
  const joints = file.parents.length;
  const at = (frame, joint) => Array.from(file.positions.subarray((frame * joints + joint) * 3, (frame * joints + joint) * 3 + 3));
  const pair = (part) => {
    const both = ['left', 'right'].map((side) => roles[`${side} ${part}`]);
    return both.includes(undefined) ? null : both;
  };
  const middle = (part) => {
    const both = pair(part);
    return both && ((frame) => at(frame, both[0]).map((value, i) => (value + at(frame, both[1])[i]) / 2));
  };
  const one = (role) => (roles[role] === undefined ? null : (frame) => at(frame, roles[role]));
  return { at, pair, middle, top: middle('shoulder') ?? one('head'), low: middle('hip') ?? one('pelvis') };
}

function trunkOf(body, frames) {
  if (!body.top || !body.low) return null;
  const trunk = frames.map((frame) => unit3(apart3(body.top(frame), body.low(frame))));
  return trunk.some((one) => dot3(one, one) > 0) ? trunk : null;
}

// The axis that is up in the rest pose by its legs, or by its trunk without legs; null where that is not clear.
function restAxis(file, roles) {
  const at = (joint) => Array.from(file.rest.subarray(joint * 3, joint * 3 + 3));
  let sum = null;
  for (const side of ['left', 'right']) {
    const [hip, ankle] = [roles[`${side} hip`], roles[`${side} ankle`]];
    if (hip !== undefined && ankle !== undefined) sum = apart3(at(hip), at(ankle)).map((value, i) => value + (sum?.[i] ?? 0));
  }
  if (!sum && roles.head !== undefined) sum = apart3(at(roles.head), at(roles.pelvis));
  return sum && axisAlong(unit3(sum), NAMES.up.clear);
}

function armsHang(body, frames, up) {
  const ways = ['left', 'right'].map((_, i) => {
    const arm = ['shoulder', 'elbow', 'wrist'].map((part) => body.pair(part)?.[i]);
    if (arm.includes(undefined)) return Infinity;
    return middleOf(frames.map((frame) => {
      const [shoulder, elbow, wrist] = arm.map((joint) => body.at(frame, joint));
      const length = Math.hypot(...apart3(elbow, shoulder)) + Math.hypot(...apart3(wrist, elbow));
      return dot3(apart3(wrist, shoulder), axisUp(up)) / Math.max(length, 1e-12);
    }));
  });
  return (ways[0] + ways[1]) / 2 < NAMES.up.hanging;
}

// The legs' length, the joints of the feet, and the height of the lowest one in each frame.
function feetIn(file, roles, body, frames, up) {
  const [hip, knee, ankle] = ['hip', 'knee', 'ankle'].map(body.pair);
  if (!hip || !knee || !ankle) return null;
  const far = (a, b) => Math.hypot(...apart3(body.at(frames[0], a), body.at(frames[0], b)));
  const leg = [0, 1].reduce((sum, i) => sum + far(hip[i], knee[i]) + far(knee[i], ankle[i]), 0) / 2;
  const toes = ['left', 'right'].map((side, i) => roles[`${side} toe`] ?? file.parents.indexOf(ankle[i]));
  const joints = [...ankle, ...toes.filter((toe) => toe >= 0)];
  const heights = frames.map((frame) => Math.min(...joints.map((joint) => dot3(body.at(frame, joint), axisUp(up)))));
  return leg > 0 ? { leg, joints, heights } : null;
}

function feetCarry(file, feet, body, frames, up) {
  if (!feet || !body.middle('hip')) return false;
  const { leg, joints, heights } = feet;
  const hips = frames.map(body.middle('hip'));
  const below = middleOf(hips.map((place, i) => dot3(place, axisUp(up)) - heights[i]));
  if (below < 0.5 * leg || spanOf(heights) > NAMES.up.level * leg) return false;
  const step = Math.max(1, Math.round(NAMES.up.seconds * file.fps));
  let [travelled, travels, planted] = [0, 0, 0];
  for (let i = step; i < frames.length; i += 1) {
    const moved = apart3(hips[i], hips[i - step]);
    const rise = dot3(moved, axisUp(up));
    const speed = (Math.hypot(...moved.map((value, k) => value - rise * axisUp(up)[k])) * file.fps) / step;
    if (!(speed > NAMES.up.speed * leg)) continue;
    const foot = Math.min(...joints.map((joint) => Math.hypot(...apart3(body.at(frames[i], joint), body.at(frames[i - step], joint)))));
    travelled += speed / file.fps;
    travels += 1;
    planted += (foot * file.fps) / step < NAMES.up.planted * speed;
  }
  return travelled >= NAMES.up.travel * leg && planted > NAMES.up.carried * travels;
}

function hipsRise(feet, body, frames, trunk, up, fallback) {
  if (!feet || !body.middle('hip')) return false;
  const level = frames.filter((_, i) => dot3(trunk[i], axisUp(up)) > NAMES.up.clear);
  const heights = level.map((frame) => dot3(body.middle('hip')(frame), axisUp(fallback)));
  return level.length > 1 && spanOf(feet.heights) < NAMES.up.level * feet.leg && spanOf(heights) > NAMES.up.rise * feet.leg;
}

// The direction of up in a file, and what a person should know of it.
function findUp(file, roles) {
  const size = file.parents.length * 3;
  const finite = Array.from({ length: file.frames }, (_, frame) => frame)
    .filter((frame) => file.positions.subarray(frame * size, (frame + 1) * size).every(Number.isFinite));
  const rest = restAxis(file, roles);
  const fallback = rest === 'z' ? 'z' : 'y';
  const body = bodyIn(file, roles);
  const median = (trunk) => [0, 1, 2].map((i) => middleOf(trunk.map((one) => one[i])));
  const count = Math.min(finite.length, UP_LOOKS);
  const looks = Array.from({ length: count }, (_, i) => finite[Math.round((i * (finite.length - 1)) / Math.max(count - 1, 1))]);
  const first = finite.length ? trunkOf(body, looks) : null;
  if (!first || axisAlong(median(first), NAMES.up.clear) === fallback) return { up: fallback, said: '' };
  const frames = finite.slice(0, UP_LONGEST);
  const trunk = trunkOf(body, frames);
  const whole = median(trunk);
  const up = axisAlong(whole, NAMES.up.share);
  if (up === fallback) return { up, said: '' };
  if (!up) {
    const over = dot3(whole, axisUp(fallback)) > NAMES.up.over;
    return { up: fallback, said: over ? '' : `no direction of up fits the body: ${axisWords(fallback)} was taken` };
  }
  const feet = feetIn(file, roles, body, frames, up);
  const upsideDown = dot3(axisUp(up), axisUp(fallback)) < 0;
  const shown = upsideDown ? armsHang(body, frames, up) : hipsRise(feet, body, frames, trunk, up, fallback);
  const usual = rest === 'z' ? 'y' : rest;
  if (up === usual || shown || feetCarry(file, feet, body, frames, up)) {
    return { up, said: `the trunk points along ${up.toUpperCase()}: ${axisWords(up)} was taken` };
  }
  const how = upsideDown ? 'the head is down' : `lies along ${up.toUpperCase()}`;
  return { up: fallback, said: `${how} for most of the clip: if ${axisWords(up)} is meant, choose it under Up` };
}

// Places ``[x, y, z, ...]`` turned so that an axis becomes Y.
function turnPlaces(places, axis, scale = 1) {
  const turn = NAMES.up.turns[axis];
  const from = turn.map((row) => row.findIndex((value) => value !== 0));
  const by = turn.map((row) => scale * row.find((value) => value !== 0));
  const out = new Float32Array(places.length);
  for (let i = 0; i < places.length; i += 3) for (let k = 0; k < 3; k += 1) out[i + k] = places[i + from[k]] * by[k];
  return out;
}

// A track with another direction as up, seen from how the page has it.
function turnTrack(track, axis) {
  const { asRead = track } = track;
  if (axis === 'y') return asRead;
  const { feet, contacts } = asRead;
  const turned = { ...asRead, positions: turnPlaces(asRead.positions, axis), path: null, contacts: feet ? null : contacts };
  return { ...measured(laidOut(turned)), up: axis, asRead };
}
