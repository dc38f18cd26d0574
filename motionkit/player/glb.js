// A GLB file that was dropped on the page: the joints of its first skin, or its animated nodes, over time.

const COMPONENTS = {
  5120: [1, 'getInt8', 127], 5121: [1, 'getUint8', 255], 5122: [2, 'getInt16', 32767], 5123: [2, 'getUint16', 65535],
  5125: [4, 'getUint32', 0], 5126: [4, 'getFloat32', 0],
};
const WIDTHS = { SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4, MAT4: 16 };
const RATE = 30; // frames per second where no rate holds every key
const SLOWEST = 10; // keys a second from which even linear keys are frames
const RATES = [24, 25, 30, 60]; // of curves
const GAPS = [...RATES, 12, 15, 20, 48, 50, 72, 75, 90, 100, 120, 144, 180, 200, 240]; // of linear keys with gaps

const ON_KEY = 1e-3; // part of an interval within which a time is a key's: they are stored in single precision

const onFrame = (value) => Math.abs(value - Math.round(value)) < 0.03;

// The rate of keys that are evenly spaced, or 0.
function glbEven(times) {
  const rate = (times.length - 1) / (times.at(-1) - times[0]);
  if (!(rate >= 0.1 && rate <= 1000) || !times.every((time, i) => Math.abs(time - times[0] - i / rate) * rate < 0.05)) return 0;
  return Math.abs(rate - Math.round(rate)) < 5e-4 * rate ? Math.round(rate) : rate;
}

// Frames per second, as motionkit's own reader takes them: dense even linear keys are frames, all others a curve.
function glbRate(channels, said, first) {
  if (said > 0 && said <= 1000) return said;
  const changes = ({ values, width, kind }) => values.some((value, i) =>
    (kind === 'CUBICSPLINE' && Math.trunc(i / width) % 3 !== 1 ? value : value - values[(kind === 'CUBICSPLINE' ? width : 0) + i % width]) !== 0);
  const moving = channels.some(changes) ? channels.filter(changes) : channels;
  const fuller = (a, b) => b.times.length - a.times.length || (b.kind === 'LINEAR') - (a.kind === 'LINEAR');
  const [fullest] = [...moving].sort(fuller);
  if (fullest.times.length < 2) return RATE;
  const even = glbEven(fullest.times);
  if (fullest.kind === 'LINEAR' && even >= SLOWEST) return even;
  const gaps = !even && moving.every(({ kind }) => kind === 'LINEAR');
  const holds = (rate) => moving.every(({ times }) => times.every((time) => onFrame((time - first) * rate)));
  return (gaps ? GAPS : RATES).find(holds) ?? (even >= SLOWEST ? even : RATE);
}

// The document and the binary chunk.
function glbChunks(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 20 || view.getUint32(0, true) !== 0x46546c67) refuse('it is not a GLB file');
  if (view.getUint32(4, true) !== 2) refuse('it is GLB of another version than 2');
  const size = view.getUint32(12, true);
  if (view.getUint32(16, true) !== 0x4e4f534a || 20 + size > bytes.length) refuse('its first chunk is no JSON');
  const document = JSON.parse(new TextDecoder().decode(bytes.subarray(20, 20 + size)));
  const at = 20 + size;
  const more = at + 8 <= bytes.length ? view.getUint32(at, true) : 0;
  if (at + 8 + more > bytes.length) refuse('its binary chunk ends beyond the file');
  return { document, data: new DataView(bytes.buffer, bytes.byteOffset + Math.min(at + 8, bytes.length), more) };
}

// Numbers of an accessor, all of them inside the buffer.
function glbNumbers({ document, data }, index) {
  const accessor = document.accessors?.[index] ?? refuse('it names an accessor that is not there');
  if (accessor.sparse) refuse('it has sparse accessors, which are not read here');
  const [size, get, most] = COMPONENTS[accessor.componentType] ?? refuse('it has numbers of an unknown kind');
  const width = WIDTHS[accessor.type] ?? refuse('it has vectors of an unknown kind');
  const count = accessor.count;
  if (!(Number.isInteger(count) && count >= 0 && count * width <= MOST_NUMBERS)) refuse('an accessor has an impossible size');
  const view = document.bufferViews?.[accessor.bufferView];
  if (!view) return new Float64Array(count * width);
  if (view.buffer || document.buffers?.[0]?.uri) refuse('its numbers are in another file');
  const start = (view.byteOffset ?? 0) + (accessor.byteOffset ?? 0);
  const stride = view.byteStride ?? size * width;
  const end = start + (count - 1) * stride + size * width;
  if (count && !(start >= 0 && stride >= size && end <= data.byteLength)) refuse('an accessor reaches beyond the buffer');
  const out = new Float64Array(count * width);
  for (let row = 0; row < count; row += 1) {
    for (let k = 0; k < width; k += 1) {
      const value = data[get](start + row * stride + k * size, true);
      out[row * width + k] = accessor.normalized && most ? Math.max(value / most, -1) : value;
    }
  }
  return out;
}

function quaternionMatrix([x, y, z, w]) {
  const n = Math.hypot(x, y, z, w) || 1;
  const [a, b, c, d] = [x / n, y / n, z / n, w / n];
  return [
    1 - 2 * (b * b + c * c), 2 * (a * b - c * d), 2 * (a * c + b * d),
    2 * (a * b + c * d), 1 - 2 * (a * a + c * c), 2 * (b * c - a * d),
    2 * (a * c - b * d), 2 * (b * c + a * d), 1 - 2 * (a * a + b * b),
  ];
}

// The parent of each node; one that is inside itself or has two parents is refused.
function glbParents(nodes) {
  const parents = nodes.map(() => -1);
  nodes.forEach((node, i) => {
    for (const child of node.children ?? []) {
      if (!nodes[child] || parents[child] >= 0) refuse('its nodes are no tree');
      parents[child] = i;
    }
  });
  nodes.forEach((_, i) => {
    let steps = 0;
    for (let at = i; at >= 0; at = parents[at]) {
      steps += 1;
      if (steps > nodes.length) refuse('its nodes are no tree');
    }
  });
  return parents;
}

// Translation, rotation and scale of a node, from its matrix where it has one.
function glbRest(node) {
  const m = node.matrix;
  if (!m) return { t: node.translation ?? [0, 0, 0], r: quaternionMatrix(node.rotation ?? [0, 0, 0, 1]), s: node.scale ?? [1, 1, 1] };
  const s = [0, 1, 2].map((i) => Math.hypot(m[4 * i], m[4 * i + 1], m[4 * i + 2]) || 1);
  const r = [0, 1, 2].flatMap((row) => [0, 1, 2].map((column) => m[4 * column + row] / s[column]));
  return { t: m.slice(12, 15), r, s };
}

// The value of a sampler at a time.
function glbSample({ times, values, width, kind }, time, turns) {
  const cubic = kind === 'CUBICSPLINE';
  const at = (key, part = 1) => {
    const start = (cubic ? 3 * key + part : key) * width;
    return Array.from(values.subarray(start, start + width));
  };
  let after = 0;
  let high = times.length;
  while (after < high) {
    const middle = (after + high) >> 1;
    if (times[middle] <= time) after = middle + 1;
    else high = middle;
  }
  if (!after) return at(0);
  if (after === times.length) return at(after - 1);
  const span = times[after] - times[after - 1];
  let u = (time - times[after - 1]) / span;
  u = u < ON_KEY ? 0 : u > 1 - ON_KEY ? 1 : u;
  if (kind === 'STEP') return at(u < 1 ? after - 1 : after);
  const [a, b] = [at(after - 1), at(after)];
  if (cubic) {
    const [out, into] = [at(after - 1, 2), at(after, 0)];
    const h = [2 * u ** 3 - 3 * u * u + 1, u ** 3 - 2 * u * u + u, 3 * u * u - 2 * u ** 3, u ** 3 - u * u];
    return a.map((value, i) => h[0] * value + h[1] * span * out[i] + h[2] * b[i] + h[3] * span * into[i]);
  }
  if (!turns) return a.map((value, i) => value + (b[i] - value) * u);
  let dot = a.reduce((sum, value, i) => sum + value * b[i], 0);
  const sign = dot < 0 ? -1 : 1;
  dot = Math.min(dot * sign, 1);
  const angle = Math.acos(dot);
  const [p, q] = angle < 1e-6 ? [1 - u, u] : [Math.sin((1 - u) * angle) / Math.sin(angle), Math.sin(u * angle) / Math.sin(angle)];
  return a.map((value, i) => p * value + q * sign * b[i]);
}

// The bones that a VRM model or animation names, by their nodes.
function glbBones(extensions) {
  const tables = ['VRMC_vrm', 'VRMC_vrm_animation', 'VRM'].map((name) => extensions?.[name]?.humanoid?.humanBones);
  return new Map(tables.flatMap((table) => (Array.isArray(table)
    ? table.map((row) => [row?.node, row?.bone])
    : Object.entries(table ?? {}).map(([bone, row]) => [row?.node, bone])
  )).filter(([node, bone]) => Number.isInteger(node) && node >= 0 && typeof bone === 'string'));
}

// Joints over time, as readBvh returns them; metres, Y up, as glTF says.
function readGlb(bytes) {
  const file = glbChunks(bytes);
  const { document } = file;
  const needs = document.extensionsRequired ?? [];
  if (needs.length) refuse(`it needs ${needs.join(', ')}, which is not read here`);
  const nodes = document.nodes ?? [];
  const animation = document.animations?.[0] ?? refuse('it has no animation');
  if (nodes.length > 10 * MOST_JOINTS) refuse(`it has ${nodes.length} nodes`);
  const above = glbParents(nodes);
  const moved = new Map(); // node -> {translation, rotation, scale} samplers
  let [first, last] = [Infinity, 0];
  for (const { sampler, target } of animation.channels ?? []) {
    if (!nodes[target?.node] || !['translation', 'rotation', 'scale'].includes(target.path)) continue;
    const { input, output, interpolation } = animation.samplers?.[sampler] ?? refuse('it names a sampler that is not there');
    const times = glbNumbers(file, input);
    const width = target.path === 'rotation' ? 4 : 3;
    const kind = interpolation ?? 'LINEAR';
    const values = glbNumbers(file, output);
    if (!times.length || values.length < times.length * width * (kind === 'CUBICSPLINE' ? 3 : 1)) refuse('a sampler has too few values');
    if (times.some((time, i) => !(time >= (i ? times[i - 1] : 0)))) refuse('the times of a sampler go back');
    moved.set(target.node, { ...moved.get(target.node), [target.path]: { times, values, width, kind } });
    first = Math.min(first, times[0]);
    last = Math.max(last, times.at(-1));
  }
  if (!moved.size) refuse('its animation moves nothing');
  const fps = glbRate([...moved.values()].flatMap(Object.values), Number(animation.extras?.fps), first);
  const frames = Math.floor((last - first) * fps + 1e-3) + 1;
  const bones = glbBones(document.extensions);
  const wanted = new Set(document.skins?.[0]?.joints ?? (bones.size ? bones.keys() : moved.keys()));
  const order = []; // nodes from the top down, so that each parent comes before its children
  const visit = (top) => {
    const waiting = [top];
    while (waiting.length) {
      const node = waiting.pop();
      order.push(node);
      waiting.push(...[...(nodes[node].children ?? [])].reverse());
    }
  };
  above.forEach((parent, node) => parent < 0 && visit(node));
  const kept = order.filter((node) => wanted.has(node));
  if (!kept.length || kept.length > MOST_JOINTS) refuse(`it has ${kept.length} joints`);
  if (frames * kept.length * 3 > MOST_NUMBERS) refuse('it is too large for a page: motionkit view FILE thins it out');
  const place = new Map(kept.map((node, joint) => [node, joint]));
  const parents = kept.map((node) => {
    for (let at = above[node]; at >= 0; at = above[at]) if (place.has(at)) return place.get(at);
    return -1;
  });
  const rests = nodes.map(glbRest);
  // Places of the joints, with what moves at a time, or at rest.
  const pose = (time) => {
    const world = new Array(nodes.length);
    for (const node of order) {
      const own = time === null ? undefined : moved.get(node);
      const { t, r, s } = {
        t: own?.translation ? glbSample(own.translation, time, false) : rests[node].t,
        r: own?.rotation ? quaternionMatrix(glbSample(own.rotation, time, true)) : rests[node].r,
        s: own?.scale ? glbSample(own.scale, time, false) : rests[node].s,
      };
      const up = world[above[node]] ?? { at: [0, 0, 0], m: SAME };
      const shift = turned(up.m, ...t);
      world[node] = { at: up.at.map((value, i) => value + shift[i]), m: product(up.m, r.map((value, i) => value * s[i % 3])) };
    }
    return kept.flatMap((node) => world[node].at);
  };
  const positions = new Float32Array(frames * kept.length * 3);
  for (let frame = 0; frame < frames; frame += 1) positions.set(pose(first + frame / fps), frame * kept.length * 3);
  const names = kept.map((node, joint) => bones.get(node) ?? String(nodes[node].name ?? `joint ${joint}`));
  return { names, parents, fps, frames, positions, rest: Float32Array.from(pose(null)), unit: 'm' };
}
