// A track of joints that were read from a dropped file: all that _figure.py measures of one, measured here.

const PERSON = 1.7;
const LIMB = 0.14;
const THIN = 0.007;
const THICK = 0.036;
const TRUNK = 0.04;
const HEAD = 0.086;
const CALM = 0.35;
const FASTEST = 60; // frames per second that are kept

const length3 = (d) => Math.hypot(...d);

// The unit in which the legs, or else the whole rest pose, are as long as a person's.
function unitOf(file, roles) {
  const at = (joint) => Array.from(file.positions.subarray(joint * 3, joint * 3 + 3));
  const apart = (a, b) => length3(at(a).map((value, i) => value - at(b)[i]));
  const nearest = (size, metres) => {
    const off = (name) => Math.abs(Math.log((size * NAMES.units[name]) / metres));
    return Object.keys(NAMES.units).reduce((a, b) => (off(b) < off(a) ? b : a));
  };
  const bones = ['left', 'right'].flatMap((side) => [[`${side} hip`, `${side} knee`], [`${side} knee`, `${side} ankle`]]);
  if (bones.every((pair) => pair.every((role) => roles[role] !== undefined))) {
    const leg = bones.reduce((sum, [a, b]) => sum + apart(roles[a], roles[b]), 0) / 2;
    if (leg > 0) return nearest(leg, NAMES.leg);
  }
  const extent = Math.max(...[0, 1, 2].map((axis) => {
    const values = file.rest.filter((_, i) => i % 3 === axis);
    return Math.max(...values) - Math.min(...values);
  }));
  const unit = extent > 0 ? nearest(extent, 1.75) : 'cm';
  return Math.abs(Math.log((extent * NAMES.units[unit]) / 1.75)) < Math.log(1.5) ? unit : 'cm';
}

// Metres, Y up, every so many frames that no more than 60 a second are left; frames that are not finite repeat others.
function inMetres(file, roles) {
  const joints = file.parents.length;
  const scale = file.unit === 'm' ? 1 : NAMES.units[unitOf(file, roles)];
  const { up, said } = findUp(file, roles);
  const stride = Math.max(1, Math.ceil(file.fps / FASTEST - 1e-6));
  const frames = Math.ceil(file.frames / stride);
  const positions = new Float32Array(frames * joints * 3);
  const shown = new Uint8Array(frames);
  for (let frame = 0; frame < frames; frame += 1) {
    const from = frame * stride * joints * 3;
    positions.set(turnPlaces(file.positions.subarray(from, from + joints * 3), up, scale), frame * joints * 3);
    shown[frame] = +positions.subarray(frame * joints * 3, (frame + 1) * joints * 3).every((value) => Math.abs(value) < 1e4);
  }
  if (!shown.includes(1)) refuse('no frame of it can be shown: are its numbers finite, and its unit right');
  const size = joints * 3;
  const copy = (to, from) => positions.copyWithin(to * size, from * size, (from + 1) * size);
  const first = shown.indexOf(1);
  for (let frame = 0; frame < first; frame += 1) copy(frame, first);
  for (let frame = first; frame < frames; frame += 1) if (!shown[frame]) copy(frame, frame - 1);
  return { positions, shown, frames, stride, joints, fps: file.fps / stride, said };
}

// x and z of the root, evened out so that steps do not shake the camera.
function evened(path, frames, sigma) {
  if (frames < 3 || sigma < 0.5) return path;
  const half = Math.max(1, Math.min(Math.trunc(3 * sigma), frames - 1));
  const weights = Array.from({ length: 2 * half + 1 }, (_, i) => Math.exp(-0.5 * ((i - half) / sigma) ** 2));
  const total = weights.reduce((a, b) => a + b, 0);
  return path.map((_, i) => {
    const [frame, axis] = [i >> 1, i & 1];
    return weights.reduce((sum, weight, k) => sum + weight * path[2 * clamp(frame + k - half, [0, frames - 1]) + axis], 0) / total;
  });
}

// The median length of the bone that ends at each joint, 0 for roots.
function boneLengths({ positions, frames, joints }, parents) {
  const looks = Array.from({ length: Math.min(frames, 50) }, (_, i, all) => Math.trunc((i * (frames - 1)) / Math.max(1, Math.min(frames, 50) - 1)));
  return parents.map((parent, joint) => {
    if (parent < 0) return 0;
    const lengths = looks.map((frame) => length3([0, 1, 2].map((i) =>
      positions[(frame * joints + joint) * 3 + i] - positions[(frame * joints + parent) * 3 + i])));
    return lengths.sort((a, b) => a - b)[(lengths.length - 1) >> 1];
  });
}

// A radius per joint from the bones that meet there.
function radiiOf(parents, lengths, sides, scale) {
  const known = sides.some((side) => side !== '-');
  const bones = lengths.map((length, joint) => {
    const thinnest = known && sides[joint] === '-' ? TRUNK : THIN;
    return Math.min(Math.max((LIMB * length) / scale, thinnest), Math.max(THICK, thinnest));
  });
  const after = parents.map(() => 0);
  parents.forEach((parent, joint) => {
    if (parent >= 0) after[parent] = Math.max(after[parent], bones[joint]);
  });
  return parents.map((parent, joint) => {
    const [bone, thickest] = [bones[joint], after[joint]];
    if (known && sides[joint] === '-') return bone * scale;
    if (parent < 0 && !thickest) return TRUNK * scale;
    return (thickest >= bone ? thickest : thickest ? (bone + thickest) / 2 : 0.7 * bone) * scale;
  });
}

function headOf(names, parents, lengths, scale) {
  const joint = headJoint(names);
  if (joint < 0 || parents[joint] < 0) return null;
  const radius = HEAD * scale;
  const above = parents.flatMap((parent, child) => (parent === joint && lengths[child] > 0.3 * radius ? [child] : []));
  if (!above.length) return [joint, parents[joint], 0.6 * radius, radius];
  const top = above.reduce((a, b) => (lengths[b] > lengths[a] ? b : a));
  return [top, joint, lengths[top] / 2 - lengths[top], radius];
}

// Collars count among the trunk: their bones start at the middle of the chest.
function withoutCollars(sides, roles, parents) {
  const out = [...sides];
  for (const side of ['left', 'right']) {
    const shoulder = roles[`${side} shoulder`];
    for (let at = shoulder === undefined ? -1 : parents[shoulder]; at >= 0 && out[at] !== '-'; at = parents[at]) out[at] = '-';
  }
  return out.join('');
}

// The track of a file: what decodeTrack returns of one that the page brought.
function trackOfFile(file, title) {
  const { names, parents } = file;
  const roles = findRoles(names, parents);
  const track = {
    ...inMetres(file, roles), title, parents, names, roles, fileFps: file.fps, root: parents.indexOf(-1),
    duration: file.frames / file.fps, segments: [], colour: '', path: null, contacts: null, feet: findFeet(roles, parents),
    sides: withoutCollars(findSides(names), roles, parents),
    bones: parents.flatMap((parent, joint) => (parent >= 0 ? [[parent, joint]] : [])),
    lone: parents.flatMap((parent, joint) => (parent < 0 && !parents.includes(joint) ? [joint] : [])),
  };
  return measured(laidOut(track));
}

// A track with its size, and where a camera looks.
function laidOut(track) {
  const { positions, frames, joints, fps, parents, names, root, sides } = track;
  const all = Array.from({ length: joints }, (_, joint) => joint);
  const column = (frame, axis) => all.map((joint) => positions[(frame * joints + joint) * 3 + axis]);
  const times = Array.from({ length: frames }, (_, frame) => frame);
  const low = quantile(times.map((frame) => Math.min(...column(frame, 1))), 0.02);
  const high = quantile(times.map((frame) => Math.max(...column(frame, 1))), 0.98);
  const height = Math.max(high - low, 1e-3);
  const path = Float32Array.from({ length: frames * 2 }, (_, i) => positions[((i >> 1) * joints + root) * 3 + 2 * (i & 1)]);
  const follow = evened(path, frames, CALM * fps);
  const away = (frame, [x, z]) => Math.max(...all.map((joint) =>
    Math.hypot(positions[(frame * joints + joint) * 3] - x, positions[(frame * joints + joint) * 3 + 2] - z)));
  const ends = [0, 2].map((axis) => {
    const values = positions.filter((_, i) => i % 3 === axis);
    return values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  });
  const centre = ends.map(([a, b]) => (a + b) / 2);
  const lengths = boneLengths(track, parents);
  return {
    ...track, height, middle: (low + high) / 2, follow, centre,
    reach: Math.max(quantile(times.map((frame) => away(frame, [follow[2 * frame], follow[2 * frame + 1]])), 0.98), 1e-3),
    spread: Math.max(...times.map((frame) => away(frame, centre)), 1e-3),
    radii: radiiOf(parents, lengths, [...sides], height / PERSON),
    head: headOf(names, parents, lengths, height / PERSON),
  };
}

// A dropped file as a track; refuses what it cannot read with an error in words.
function readMotion(name, bytes) {
  // VRM models and animations are GLB files of another name.
  const binary = String.fromCharCode(...bytes.subarray(0, 4)) === 'glTF' || /\.(glb|vrma?)$/i.test(name);
  const read = binary ? readGlb : /\.bvh$/i.test(name) ? readBvh : refuse('only BVH and GLB (VRM too) can be dropped here');
  return trackOfFile(read(bytes), name.replace(/\.\w+$/, ''));
}
