// A figure: bones and head, sorted by depth, and its shadow.

// A bone: two discs and what lies between them.
function capsule(context, x1, y1, r1, x2, y2, r2) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  context.beginPath();
  if (length <= Math.abs(r1 - r2) + 1e-6) {
    const [x, y, r] = r1 > r2 ? [x1, y1, r1] : [x2, y2, r2];
    context.arc(x, y, r, 0, 2 * Math.PI);
  } else {
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const lean = Math.acos((r1 - r2) / length);
    context.arc(x1, y1, r1, angle + lean, angle - lean + 2 * Math.PI);
    context.arc(x2, y2, r2, angle - lean, angle + lean);
  }
  context.closePath();
  context.fill();
}

function boneColour(look, track, side, overlay) {
  if (!overlay) return { L: look.left, R: look.right }[side] ?? look.centre;
  return { L: mix(track.shade, '#000000', 0.38), R: mix(track.shade, '#ffffff', 0.5) }[side] ?? track.shade;
}

// What a figure is made of, for the sorting: bones and head with their depths, in pixels. A rim of the background
// beside a bone keeps crossing limbs apart; the trunk is one piece and has none, or it would cut itself.
function figureParts(axes, look, track, pose, overlay, body = null) {
  const radii = body ? body.radii : track.radii;
  const seen = [];
  for (let i = 0; i < track.joints; i += 1) seen.push(see(axes, pose[i * 3], pose[i * 3 + 1], pose[i * 3 + 2]));
  const parts = [];
  const sided = /[LR]/.test(track.sides);
  for (const [from, to] of track.bones) {
    const a = seen[from];
    const b = seen[to];
    if (a[2] < look.near || b[2] < look.near) continue;
    if (body && from === track.roles.head && to === track.head?.[0]) continue; // it is inside the ball of the head
    const trunk = body ? body.trunk[to] : track.sides[to] === '-';
    // Where a limb of a thin figure leaves the trunk it is thinner, so that its colour does not cover the trunk.
    const start = body || track.sides[from] === track.sides[to] ? radii[from] : 0.55 * radii[to];
    parts.push({
      depth: (a[2] + b[2]) / 2,
      ends: [...place(axes, a), (axes.focal * start) / a[2], ...place(axes, b), (axes.focal * radii[to]) / b[2]],
      colour: boneColour(look, track, body && trunk ? '-' : track.sides[to], overlay),
      rim: !sided || !trunk,
      body,
    });
  }
  for (const joint of track.lone) {
    if (seen[joint][2] < look.near) continue;
    const [x, y] = place(axes, seen[joint]);
    const r = (axes.focal * radii[joint]) / seen[joint][2];
    parts.push({ depth: seen[joint][2], ends: [x, y, r, x, y, r], colour: boneColour(look, track, track.sides[joint], overlay) });
  }
  for (const [wrist, elbow, length] of body?.hands ?? []) {
    const d = unit([0, 1, 2].map((i) => pose[wrist * 3 + i] - pose[elbow * 3 + i])) ?? [0, 0, 0];
    const tip = see(axes, ...d.map((value, i) => pose[wrist * 3 + i] + value * length));
    if (tip[2] < look.near || seen[wrist][2] < look.near) continue;
    const radius = (at, size) => (axes.focal * size * radii[wrist]) / at[2];
    parts.push({
      depth: (seen[wrist][2] + tip[2]) / 2,
      ends: [...place(axes, seen[wrist]), radius(seen[wrist], 1.15), ...place(axes, tip), radius(tip, 0.75)],
      colour: boneColour(look, track, track.sides[wrist], overlay),
      rim: true,
      body,
    });
  }
  if (track.head) {
    const [at, origin, reach, radius] = track.head;
    const d = [0, 1, 2].map((i) => pose[at * 3 + i] - pose[origin * 3 + i]);
    const length = Math.hypot(...d) || 1;
    const ball = see(axes, ...d.map((value, i) => pose[at * 3 + i] + (value / length) * reach));
    if (ball[2] > look.near) {
      const [x, y] = place(axes, ball);
      const r = (axes.focal * radius) / ball[2];
      parts.push({ depth: ball[2], ends: [x, y, r, x, y, r], colour: boneColour(look, track, '-', overlay), body });
    }
  }
  // The far side of a body is paler.
  const middle = seen[track.root][2];
  for (const part of parts) {
    const far = (part.depth - middle) / (2.2 * track.reach) + 0.25;
    part.colour = mix(part.colour, look.stage, Math.min(Math.max(far, 0), 1) * 0.5);
  }
  return parts;
}

// Vertical light: every bone's shadow on the floor, as one shape so that crossings are not darker.
function drawShadow(context, axes, look, track, pose, body = null) {
  const radii = body ? body.radii : track.radii;
  const path = new Path2D();
  let width = 1;
  for (const [from, to] of track.bones) {
    const a = see(axes, pose[from * 3], 0, pose[from * 3 + 2]);
    const b = see(axes, pose[to * 3], 0, pose[to * 3 + 2]);
    const ends = placeLine(axes, a, b, look.near);
    if (!ends) continue;
    width = Math.max(width, (axes.focal * radii[to] * 1.7) / Math.max(a[2], look.near));
    path.moveTo(...ends[0]);
    path.lineTo(...ends[1]);
  }
  context.lineCap = 'round';
  context.lineJoin = 'round';
  context.lineWidth = Math.min(width, 60);
  context.strokeStyle = clear(look.shadow, look.shadowPart);
  context.stroke(path);
}

function drawParts(context, look, parts) {
  parts.sort((a, b) => b.depth - a.depth);
  for (const { ends, colour, rim, body } of parts) {
    const [x1, y1, r1, x2, y2, r2] = ends;
    // The rim ends before the joints.
    const length = Math.hypot(x2 - x1, y2 - y1);
    context.strokeStyle = look.stage;
    context.lineCap = 'butt';
    context.lineWidth = r1 + r2 + 3;
    if (rim && length > (r1 + r2) * 1.7) {
      const inset = ((r1 + r2) * 0.8) / length;
      context.beginPath();
      context.moveTo(x1 + (x2 - x1) * inset, y1 + (y2 - y1) * inset);
      context.lineTo(x2 - (x2 - x1) * inset, y2 - (y2 - y1) * inset);
      context.stroke();
    }
    context.fillStyle = body ? shaded(context, colour, ends) : colour;
    capsule(context, x1, y1, Math.max(r1, 0.9), x2, y2, Math.max(r2, 0.9));
  }
}
