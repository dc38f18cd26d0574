// A BVH file that was dropped on the page: its joints over time, in the file's own unit and axes.

const MOST_JOINTS = 1000;
const MOST_NUMBERS = 60e6; // positions of one file: an hour of 60 joints at 60 fps is more than a page should hold

function refuse(words) {
  throw new Error(words);
}

// 3 x 3 matrices as nine numbers, row by row.
function product(a, b) {
  const out = new Array(9);
  for (let i = 0; i < 3; i += 1) {
    for (let j = 0; j < 3; j += 1) out[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
  }
  return out;
}

function turned(m, x, y, z) {
  return [0, 3, 6].map((i) => m[i] * x + m[i + 1] * y + m[i + 2] * z);
}

const SAME = [1, 0, 0, 0, 1, 0, 0, 0, 1];

function axisTurn(axis, degrees) {
  const c = Math.cos((degrees * Math.PI) / 180);
  const s = Math.sin((degrees * Math.PI) / 180);
  return { X: [1, 0, 0, 0, c, -s, 0, s, c], Y: [c, 0, s, 0, 1, 0, -s, 0, c], Z: [c, -s, 0, s, c, 0, 0, 0, 1] }[axis];
}

// The tree of a BVH file: names, parents, offsets and channels of its joints, and where MOTION goes on.
function bvhTree(text) {
  const word = /[{}]|[^\s{}]+/g;
  const next = () => word.exec(text)?.[0] ?? refuse('the file ends before its MOTION section');
  const number = () => {
    const value = Number(next());
    return Number.isFinite(value) ? value : refuse('an OFFSET has a value that is no number');
  };
  const tree = { names: [], parents: [], offsets: [], channels: [] };
  const open = [];
  if (next().toUpperCase() !== 'HIERARCHY') refuse('it is not a BVH file: it does not begin with HIERARCHY');
  for (let said = next().toUpperCase(); said !== 'MOTION'; said = next().toUpperCase()) {
    if (['ROOT', 'JOINT', 'END'].includes(said)) {
      const brace = text.indexOf('{', word.lastIndex);
      const name = text.slice(word.lastIndex, brace).trim();
      if (brace < 0 || name.includes('\n') || name.length > 1000) refuse(`there is no { after ${said}`);
      if ((said === 'ROOT') !== !open.length) refuse('its braces do not match');
      if (said === 'ROOT' && tree.names.length) refuse('there is a second ROOT');
      if (tree.names.length >= MOST_JOINTS) refuse(`there are more than ${MOST_JOINTS} joints`);
      word.lastIndex = brace + 1;
      const parent = open.at(-1) ?? -1;
      tree.names.push(said === 'END' ? `${tree.names[parent]}${END}` : name);
      tree.parents.push(parent);
      tree.offsets.push([0, 0, 0]);
      tree.channels.push([]);
      open.push(tree.names.length - 1);
    } else if (said === '}' && open.length) open.pop();
    else if (said === 'OFFSET' && open.length) tree.offsets[open.at(-1)] = [number(), number(), number()];
    else if (said === 'CHANNELS' && open.length) {
      const count = Number(next());
      if (!(count >= 0 && count <= 6)) refuse('a joint has 0 to 6 CHANNELS');
      tree.channels[open.at(-1)] = Array.from({ length: count }, () => {
        const channel = /^([xyz])(position|rotation)$/i.exec(next());
        if (!channel) refuse('a joint has an unknown channel');
        return { axis: channel[1].toUpperCase(), turns: channel[2].toLowerCase() === 'rotation' };
      });
    } else refuse(`${said.slice(0, 40)} is not expected`);
  }
  if (open.length || !tree.names.length) refuse('its braces do not match');
  return { tree, at: word.lastIndex };
}

// Joints over time: {names, parents, fps, frames, positions, rest}, without a unit yet.
function readBvh(bytes) {
  const text = new TextDecoder().decode(bytes).replace(/^\ufeff/, '').replace(/\r\n?/g, '\n');
  const { tree, at } = bvhTree(text);
  const head = /^\s*Frames\s*:?\s*(\d+)\s*Frame\s+Time\s*:?\s*([-+.\deE]+)/i.exec(text.slice(at, at + 4000));
  if (!head) refuse("its MOTION section does not begin with 'Frames: ...' and 'Frame Time: ...'");
  let frames = Number(head[1]);
  const seconds = Number(head[2]);
  if (!(frames >= 1) || !(seconds >= 1e-4 && seconds <= 10)) refuse('its number of frames or frame time is none');
  const joints = tree.names.length;
  const width = tree.channels.reduce((sum, channels) => sum + channels.length, 0);
  if (!width) refuse('no joint has channels');
  const rows = text.slice(at + head[0].length);
  const values = rows.split(/\s+/).filter(Boolean);
  // Rows of one frame each beyond the stated number are frames too.
  const lines = values.length > frames * width ? rows.split('\n').filter((line) => line.trim()) : [];
  if (lines.length && lines.every((line) => line.trim().split(/\s+/).length === width)) frames = lines.length;
  if (frames * joints * 3 > MOST_NUMBERS) refuse('it is too large for a page: motionkit view FILE thins it out');
  if (values.length !== frames * width) refuse(`expected ${frames} frames x ${width} values, found ${values.length} values`);
  const positions = new Float32Array(frames * joints * 3);
  const world = new Array(joints);
  let column = 0;
  for (let frame = 0; frame < frames; frame += 1) {
    for (let joint = 0; joint < joints; joint += 1) {
      const place = [...tree.offsets[joint]];
      let turn = SAME;
      for (const { axis, turns } of tree.channels[joint]) {
        const value = Number(values[column]);
        if (Number.isNaN(value) && !/^[-+]?nan$/i.test(values[column])) refuse(`${values[column].slice(0, 40)} is no number`);
        column += 1;
        if (turns) turn = product(turn, axisTurn(axis, value));
        else place['XYZ'.indexOf(axis)] = value;
      }
      const parent = tree.parents[joint];
      world[joint] = parent < 0 ? turn : product(world[parent], turn);
      const shifted = parent < 0 ? place : turned(world[parent], ...place);
      for (let i = 0; i < 3; i += 1) {
        const base = parent < 0 ? 0 : positions[(frame * joints + parent) * 3 + i];
        positions[(frame * joints + joint) * 3 + i] = base + shifted[i];
      }
    }
  }
  const rest = new Float32Array(joints * 3);
  tree.offsets.forEach((offset, joint) => {
    const parent = tree.parents[joint];
    for (let i = 0; i < 3; i += 1) rest[joint * 3 + i] = offset[i] + (parent < 0 ? 0 : rest[parent * 3 + i]);
  });
  const rate = 1 / seconds;
  const fps = Math.abs(rate - Math.round(rate)) < 1e-3 * rate ? Math.round(rate) : rate;
  return { names: tree.names, parents: tree.parents, fps, frames, positions, rest, unit: '' };
}
