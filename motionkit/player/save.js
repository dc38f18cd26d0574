// The motions of a page as BVH files. A page holds places of joints and no rotations: here each joint turns as its bones
// do, from the pose of the first frame, and turns no further about a single bone than its parent does.

function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

function unit(v) {
  const n = Math.hypot(...v);
  return n > 1e-9 ? v.map((value) => value / n) : null;
}

const transposed = (m) => [m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]];

// The smallest turn from one direction to another.
function leastTurn(from, to) {
  const [a, b] = [unit(from), unit(to)];
  if (!a || !b) return SAME;
  const c = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  if (c < -1 + 1e-9) {
    const side = unit(cross(a, Math.abs(a[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0]));
    return [0, 1, 2].flatMap((i) => [0, 1, 2].map((j) => 2 * side[i] * side[j] - (i === j ? 1 : 0)));
  }
  const [x, y, z] = cross(a, b);
  const k = 1 / (1 + c);
  return [c + k * x * x, k * x * y - z, k * x * z + y, k * x * y + z, c + k * y * y, k * y * z - x, k * x * z - y, k * y * z + x, c + k * z * z];
}

// Axes that two directions span, as columns; null where they lie on one line.
function spanned(a, b) {
  const x = unit(a);
  const z = x && unit(cross(a, b));
  if (!z) return null;
  const y = cross(z, x);
  return [x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]];
}

// Turns of all joints in the world: from the pose at rest, offsets by joint, to the one at a frame.
function turnsOf(places, offsets, parents, children) {
  const turns = [];
  const down = parents.flatMap((parent, joint) => (parent < 0 ? [joint] : []));
  for (const joint of down) {
    down.push(...children[joint]);
    const parent = parents[joint];
    const up = parent < 0 ? SAME : turns[parent];
    const bones = children[joint].filter((child) => length3(offsets[child]) > 1e-6);
    const now = (child) => [0, 1, 2].map((i) => places[child * 3 + i] - places[joint * 3 + i]);
    // The two bones that are furthest from being one line decide.
    let best = [0.05, null];
    for (const a of bones) {
      for (const b of bones) {
        const sine = a < b ? length3(cross(unit(offsets[a]), unit(offsets[b]))) : 0;
        if (sine > best[0]) best = [sine, [a, b]];
      }
    }
    const pair = best[1];
    const [rest, there] = pair ? [spanned(offsets[pair[0]], offsets[pair[1]]), spanned(now(pair[0]), now(pair[1]))] : [];
    if (rest && there) turns[joint] = product(there, transposed(rest));
    else if (bones.length) turns[joint] = product(leastTurn(turned(up, ...offsets[bones[0]]), now(bones[0])), up);
    else turns[joint] = up;
  }
  return turns;
}

// Degrees about Z, X and Y, in that order, of a matrix.
function zxyDegrees(m) {
  const x = Math.asin(clamp(m[7], [-1, 1]));
  const locked = Math.abs(m[7]) > 1 - 1e-9;
  const z = locked ? Math.atan2(m[3], m[0]) : Math.atan2(-m[1], m[4]);
  const y = locked ? 0 : Math.atan2(-m[6], m[8]);
  return [z, x, y].map((angle) => (angle * 180) / Math.PI);
}

// A track as the text of a BVH file, in centimetres.
function bvhText(track) {
  const { parents, joints, frames, positions, names } = track;
  const children = parents.map((_, joint) => parents.flatMap((parent, child) => (parent === joint ? [child] : [])));
  const lengths = boneLengths(track, parents);
  const first = Math.max(track.shown.indexOf(1), 0);
  const at = (frame) => positions.subarray(frame * joints * 3, (frame + 1) * joints * 3);
  const offsets = parents.map((parent, joint) => {
    if (parent < 0) return [0, 0, 0];
    const bone = unit([0, 1, 2].map((i) => at(first)[joint * 3 + i] - at(first)[parent * 3 + i])) ?? [0, 0, 0];
    return bone.map((value) => value * lengths[joint]);
  });
  const said = (name, joint) => (name || `joint${joint}`).replace(/[\s{}]+/g, '_');
  const lines = ['HIERARCHY'];
  const order = [];
  const number = (value) => value.toFixed(4);
  const open = (joint, depth) => {
    const pad = '  '.repeat(depth);
    const end = names[joint].endsWith(END) && !children[joint].length && depth;
    order.push(...(end ? [] : [joint]));
    lines.push(`${pad}${end ? 'End Site' : `${depth ? 'JOINT' : 'ROOT'} ${said(names[joint], joint)}`}`, `${pad}{`);
    lines.push(`${pad}  OFFSET ${offsets[joint].map((value) => number(100 * value)).join(' ')}`);
    const places = depth ? '' : 'Xposition Yposition Zposition ';
    if (!end) lines.push(`${pad}  CHANNELS ${depth ? 3 : 6} ${places}Zrotation Xrotation Yrotation`);
    for (const child of children[joint]) open(child, depth + 1);
    if (!children[joint].length && !end) lines.push(`${pad}  End Site`, `${pad}  {`, `${pad}    OFFSET 0 0 0`, `${pad}  }`);
    lines.push(`${pad}}`);
  };
  open(track.root, 0);
  lines.push('MOTION', `Frames: ${frames}`, `Frame Time: ${(1 / track.fps).toFixed(10)}`);
  for (let frame = 0; frame < frames; frame += 1) {
    const turns = turnsOf(at(frame), offsets, parents, children);
    const row = [0, 1, 2].map((i) => number(100 * at(frame)[track.root * 3 + i]));
    for (const joint of order) {
      const up = joint === track.root ? SAME : transposed(turns[parents[joint]]);
      row.push(...zxyDegrees(product(up, turns[joint])).map(number));
    }
    lines.push(row.join(' '));
  }
  return `${lines.join('\n')}\n`;
}

function saveFile(name, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A name that any file system takes.
function fileName(title) {
  return title.normalize('NFKC').replace(/[^\p{L}\p{N}]+/gu, '_').replace(/^_+|_+$/g, '').slice(0, 60) || 'motion';
}
