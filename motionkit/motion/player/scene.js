// One picture: floor, shadow, path, figures. Everything is drawn from the far end to the near one.

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mix(from, to, part) {
  const other = rgb(to);
  return `#${rgb(from)
    .map((value, i) => Math.round(value + (other[i] - value) * part).toString(16).padStart(2, '0'))
    .join('')}`;
}

function clear(hex, alpha) {
  return `rgba(${rgb(hex).join(',')},${alpha})`;
}

// Metres between the lines of the floor.
function gridStep(distance) {
  return [0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 500, 2000].find((size) => distance / size < 9) ?? 5000;
}

// Lines of the floor in a circle around `centre`, fading out.
function drawFloor(context, axes, look, centre, distance) {
  const step = gridStep(distance);
  const reach = Math.max(distance * 0.9, step * 4);
  const shades = 5;
  const paths = Array.from({ length: shades }, () => new Path2D());
  const count = Math.ceil(reach / step);
  const chunks = 10;
  for (const along of [0, 1]) {
    const start = Math.round(centre[1 - along] / step);
    for (let line = start - count; line <= start + count; line += 1) {
      const fixed = line * step;
      const off = fixed - centre[1 - along];
      const half = Math.sqrt(Math.max(reach * reach - off * off, 0));
      for (let chunk = 0; chunk < chunks && half > 0; chunk += 1) {
        const from = centre[along] + half * ((2 * chunk) / chunks - 1);
        const to = centre[along] + half * ((2 * (chunk + 1)) / chunks - 1);
        const away = Math.hypot((from + to) / 2 - centre[along], off) / reach;
        const shade = Math.floor((1 - away) * shades);
        const seen = [from, to].map((value) => (along ? see(axes, fixed, 0, value) : see(axes, value, 0, fixed)));
        const ends = shade >= 0 && placeLine(axes, seen[0], seen[1], look.near);
        if (ends) {
          paths[Math.min(shade, shades - 1)].moveTo(...ends[0]);
          paths[Math.min(shade, shades - 1)].lineTo(...ends[1]);
        }
      }
    }
  }
  context.lineWidth = 1;
  paths.forEach((path, shade) => {
    context.strokeStyle = clear(look.grid, (0.75 * (shade + 0.6)) / shades);
    context.stroke(path);
  });
}

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

// The path of the root on the floor, a dot for each second; what is to come is faint.
function drawTrail(context, axes, look, track, time, colour) {
  const stride = Math.max(1, Math.ceil(track.frames / 600));
  const past = new Path2D();
  const future = new Path2D();
  const size = track.joints * 3;
  const root = track.root * 3;
  const at = (frame) => see(axes, track.positions[frame * size + root], 0, track.positions[frame * size + root + 2]);
  for (let frame = 0; frame + 1 < track.frames; frame += stride) {
    const next = Math.min(frame + stride, track.frames - 1);
    const ends = track.shown[frame] && track.shown[next] && placeLine(axes, at(frame), at(next), look.near);
    if (ends) {
      const path = frame < time * track.fps ? past : future;
      path.moveTo(...ends[0]);
      path.lineTo(...ends[1]);
    }
  }
  context.lineCap = 'round';
  context.lineWidth = 2;
  context.strokeStyle = clear(colour, 0.22);
  context.stroke(future);
  context.strokeStyle = clear(colour, 0.85);
  context.stroke(past);
  const seconds = Math.max(1, Math.ceil(track.duration / 60));
  for (let second = 0; second * track.fps < track.frames; second += seconds) {
    const frame = Math.round(second * track.fps);
    const seen = frame < track.frames && at(frame);
    if (seen && track.shown[frame] && seen[2] > look.near) {
      context.fillStyle = clear(colour, second <= time ? 0.85 : 0.3);
      context.beginPath();
      context.arc(...place(axes, seen), 2.6, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

function boneColour(look, track, side, overlay) {
  if (!overlay) return { L: look.left, R: look.right }[side] ?? look.centre;
  return { L: mix(track.shade, '#000000', 0.38), R: mix(track.shade, '#ffffff', 0.5) }[side] ?? track.shade;
}

// What a figure is made of, for the sorting: bones and head with their depths, in pixels.
function figureParts(axes, look, track, pose, overlay) {
  const seen = [];
  for (let i = 0; i < track.joints; i += 1) seen.push(see(axes, pose[i * 3], pose[i * 3 + 1], pose[i * 3 + 2]));
  const parts = [];
  for (const [from, to] of track.bones) {
    const a = seen[from];
    const b = seen[to];
    if (a[2] < look.near || b[2] < look.near) continue;
    // Where a limb leaves the trunk it is thin, so that its colour does not cover the trunk.
    const start = track.sides[from] === track.sides[to] ? track.radii[from] : 0.55 * track.radii[to];
    parts.push({
      depth: (a[2] + b[2]) / 2,
      ends: [...place(axes, a), (axes.focal * start) / a[2], ...place(axes, b), (axes.focal * track.radii[to]) / b[2]],
      colour: boneColour(look, track, track.sides[to], overlay),
    });
  }
  for (const joint of track.lone) {
    if (seen[joint][2] < look.near) continue;
    const [x, y] = place(axes, seen[joint]);
    const r = (axes.focal * track.radii[joint]) / seen[joint][2];
    parts.push({ depth: seen[joint][2], ends: [x, y, r, x, y, r], colour: boneColour(look, track, track.sides[joint], overlay) });
  }
  if (track.head) {
    const [at, origin, reach, radius] = track.head;
    const d = [0, 1, 2].map((i) => pose[at * 3 + i] - pose[origin * 3 + i]);
    const length = Math.hypot(...d) || 1;
    const ball = see(axes, ...d.map((value, i) => pose[at * 3 + i] + (value / length) * reach));
    if (ball[2] > look.near) {
      const [x, y] = place(axes, ball);
      const r = (axes.focal * radius) / ball[2];
      parts.push({ depth: ball[2], ends: [x, y, r, x, y, r], colour: boneColour(look, track, '-', overlay) });
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
function drawShadow(context, axes, look, track, pose) {
  const path = new Path2D();
  let width = 1;
  for (const [from, to] of track.bones) {
    const a = see(axes, pose[from * 3], 0, pose[from * 3 + 2]);
    const b = see(axes, pose[to * 3], 0, pose[to * 3 + 2]);
    const ends = placeLine(axes, a, b, look.near);
    if (!ends) continue;
    width = Math.max(width, (axes.focal * track.radii[to] * 1.7) / Math.max(a[2], look.near));
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
  for (const { ends, colour } of parts) {
    const [x1, y1, r1, x2, y2, r2] = ends;
    // A rim of the background beside each bone keeps crossing limbs apart; it ends before the joints.
    const length = Math.hypot(x2 - x1, y2 - y1);
    context.strokeStyle = look.stage;
    context.lineCap = 'butt';
    context.lineWidth = r1 + r2 + 3;
    if (length > (r1 + r2) * 1.7) {
      const inset = ((r1 + r2) * 0.8) / length;
      context.beginPath();
      context.moveTo(x1 + (x2 - x1) * inset, y1 + (y2 - y1) * inset);
      context.lineTo(x2 - (x2 - x1) * inset, y2 - (y2 - y1) * inset);
      context.stroke();
    }
    context.fillStyle = colour;
    capsule(context, x1, y1, Math.max(r1, 0.9), x2, y2, Math.max(r2, 0.9));
  }
}

// A picture of some tracks at a time; `camera` has the size of the panel.
function drawScene(context, camera, look, tracks, time, overlay) {
  const axes = cameraAxes(camera);
  drawFloor(context, axes, look, [camera.target[0], camera.target[2]], camera.distance);
  const parts = [];
  for (const track of tracks) {
    drawTrail(context, axes, look, track, time, overlay ? track.shade : look.trail);
    const pose = new Float32Array(track.joints * 3);
    if (!poseAt(track, time, pose)) continue;
    drawShadow(context, axes, look, track, pose);
    parts.push(...figureParts(axes, look, track, pose, overlay));
  }
  drawParts(context, look, parts);
}
