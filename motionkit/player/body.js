// A body with thickness: how far the skin is from each joint, and shading that makes limbs round.

// Metres of a body of 1.7 m: where a limb is known by name, from the joint that it begins at to the one that it ends at.
const GIRTH = {
  hip: 0.084, knee: 0.06, ankle: 0.042, toe: 0.032, shoulder: 0.066, elbow: 0.044, wrist: 0.032,
};
const WAIST = [[0, 0.11], [0.3, 0.105], [0.6, 0.13], [0.75, 0.105], [0.86, 0.056], [1, 0.05]]; // from pelvis to head
const HANDS = 0.1; // metres that a hand goes on beyond a wrist that is the last joint
const BEYOND = { toe: 0.024, wrist: 0.014, ankle: 0.03, head: 0.04 };

function wayUp(joint, top, parents) {
  const way = [];
  for (let at = joint; at >= 0; at = parents[at]) {
    way.unshift(at);
    if (at === top) return way;
  }
  return null;
}

// Radii of a body with skin, and which joints are trunk; null where its joints are not known by name.
function bodyOf(track) {
  const { roles, parents } = track;
  const known = ['pelvis', 'head', 'left hip', 'right hip', 'left knee', 'right knee', 'left shoulder', 'right shoulder'];
  if (!parents || track.links || !known.every((role) => roles[role] !== undefined)) return null;
  const radii = parents.map(() => 0);
  const trunk = parents.map(() => false);
  const between = (from, to, a, b, inTrunk = false) => {
    const way = wayUp(to, from, parents);
    if (!way) return;
    way.forEach((joint, i) => {
      if (i || !radii[joint]) radii[joint] = a + ((b - a) * i) / Math.max(way.length - 1, 1);
      if (inTrunk) trunk[joint] = true;
    });
  };
  const spine = wayUp(roles.head, roles.pelvis, parents) ?? [roles.pelvis];
  spine.forEach((joint, i) => {
    const at = i / Math.max(spine.length - 1, 1);
    const next = WAIST.findIndex(([place]) => place >= at - 1e-9);
    const [[p, a], [q, b]] = [WAIST[Math.max(next - 1, 0)], WAIST[next]];
    radii[joint] = q > p ? a + ((b - a) * (at - p)) / (q - p) : b;
    trunk[joint] = true;
  });
  for (const side of ['left', 'right']) {
    const at = (part) => roles[`${side} ${part}`];
    for (const chain of [['hip', 'knee', 'ankle', 'toe'], ['shoulder', 'elbow', 'wrist']]) {
      // What leads from the trunk to the limb belongs to the trunk: the pelvis' sides, and the collars.
      for (let joint = at(chain[0]); joint >= 0 && !radii[joint]; joint = parents[joint]) {
        radii[joint] = GIRTH[chain[0]];
        trunk[joint] = true;
      }
      chain.slice(1).forEach((part, i) => {
        if (at(part) !== undefined && at(chain[i]) !== undefined) between(at(chain[i]), at(part), GIRTH[chain[i]], GIRTH[part]);
      });
    }
  }
  const ends = Object.fromEntries(Object.entries(roles).map(([role, joint]) => [joint, role.split(' ').at(-1)]));
  parents.forEach((parent, joint) => {
    for (let at = parent; !radii[joint] && at >= 0; at = parents[at]) if (BEYOND[ends[at]]) radii[joint] = BEYOND[ends[at]];
    radii[joint] ||= 0.02;
  });
  const scale = track.height / 1.7;
  const hands = ['left', 'right'].flatMap((side) => {
    const wrist = roles[`${side} wrist`];
    return wrist === undefined || parents.includes(wrist) ? [] : [[wrist, parents[wrist], HANDS * scale]];
  });
  return { radii: radii.map((radius) => radius * scale), trunk, hands };
}

// Light from above and the left across a capsule or a ball.
function shaded(context, colour, [x1, y1, r1, x2, y2, r2]) {
  const [light, dark] = [mix(colour, '#ffffff', 0.26), mix(colour, '#000000', 0.34)];
  const length = Math.hypot(x2 - x1, y2 - y1);
  const radius = Math.max(r1, r2);
  let fill;
  if (length < 1e-3 || length < Math.abs(r1 - r2)) {
    const [x, y] = r1 > r2 ? [x1, y1] : [x2, y2];
    fill = context.createRadialGradient(x - 0.35 * radius, y - 0.45 * radius, 0.1 * radius, x, y, radius);
  } else {
    let [nx, ny] = [-(y2 - y1) / length, (x2 - x1) / length];
    if (-0.5 * nx - ny < 0) [nx, ny] = [-nx, -ny];
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    fill = context.createLinearGradient(x + nx * radius, y + ny * radius, x - nx * radius, y - ny * radius);
  }
  fill.addColorStop(0, light);
  fill.addColorStop(0.45, colour);
  fill.addColorStop(1, dark);
  return fill;
}
