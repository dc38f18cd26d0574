// One panel: floor, path, shadow, figures. Everything is drawn from the far end to the near one.

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

// Dashes along a path of x and z on the floor: pairs of ends, as long as a camera so far away needs them. They lie on the
// floor, so that they stay in place as the camera goes along.
function pathDashes(path, distance) {
  const along = new Float64Array(path.length / 2);
  for (let frame = 1; frame < along.length; frame += 1) {
    const step = Math.hypot(path[2 * frame] - path[2 * frame - 2], path[2 * frame + 1] - path[2 * frame - 1]);
    along[frame] = along[frame - 1] + step;
  }
  const total = along[along.length - 1];
  const every = Math.max(0.027 * distance, total / 3000);
  let frame = 0; // metres only grow, so that each frame is passed once
  const at = (metres) => {
    while (frame + 2 < along.length && along[frame + 1] < metres) frame += 1;
    const part = (metres - along[frame]) / (along[frame + 1] - along[frame]);
    return [0, 1].map((axis) => path[2 * frame + axis] * (1 - part) + path[2 * frame + 2 + axis] * part);
  };
  const found = [];
  for (let dash = 0; dash * every < total; dash += 1) {
    found.push([at(dash * every), at(Math.min((dash + 0.55) * every, total))]);
  }
  return found;
}

// The path that the root was asked to take: dashed, with a ring where it should be now.
function drawWanted(context, axes, look, track, time, colour, distance) {
  const at = ([x, z]) => see(axes, x, 0, z);
  const line = new Path2D();
  for (const [start, end] of pathDashes(track.path, distance)) {
    const ends = placeLine(axes, at(start), at(end), look.near);
    if (ends) {
      line.moveTo(...ends[0]);
      line.lineTo(...ends[1]);
    }
  }
  context.lineCap = 'butt';
  context.lineWidth = 2;
  context.strokeStyle = clear(colour, 0.7);
  context.stroke(line);
  const frame = frameAt(track, time).before;
  const now = at([track.path[frame * 2], track.path[frame * 2 + 1]]);
  if (now[2] > look.near) {
    context.beginPath();
    context.arc(...place(axes, now), 5, 0, 2 * Math.PI);
    context.stroke();
  }
}

const GHOSTS = 5;
const GHOST_EVERY = 0.3; // seconds between the poses of the past that are shown

// Times of the past whose poses are shown at a time, the oldest first: they stay what they are while time goes on.
function ghostTimes(time) {
  const last = Math.ceil(time / GHOST_EVERY - 1e-6) - 1;
  return Array.from({ length: GHOSTS }, (_, k) => (last - GHOSTS + 1 + k) * GHOST_EVERY).filter((at) => at >= -1e-9);
}

// Poses of the past, the fainter the older, behind what is now.
function drawGhosts(context, axes, look, track, time, overlay, body) {
  const times = ghostTimes(time);
  times.forEach((at, k) => {
    const pose = new Float32Array(track.joints * 3);
    if (!poseAt(track, at, pose)) return;
    const parts = figureParts(axes, look, track, pose, overlay, body);
    const faint = 0.62 + 0.26 * (1 - (k + 1) / times.length);
    drawParts(context, look, parts.map((part) => ({ ...part, body: null, colour: mix(part.colour, look.stage, faint) })));
  });
}

// A picture of some tracks at a time; `camera` has the size of the panel, `drawn` says what of `thick` and `ghosts` is on.
function drawScene(context, camera, look, tracks, time, overlay, drawn = {}) {
  const axes = cameraAxes(camera);
  drawFloor(context, axes, look, [camera.target[0], camera.target[2]], camera.distance);
  const parts = [];
  for (const track of tracks) {
    drawTrail(context, axes, look, track, time, overlay ? track.shade : look.trail);
    if (track.path) drawWanted(context, axes, look, track, time, overlay ? track.shade : look.quiet, camera.distance);
    const pose = new Float32Array(track.joints * 3);
    const body = drawn.thick ? track.body : null;
    if (!poseAt(track, time, pose)) continue;
    drawShadow(context, axes, look, track, pose, body);
    if (drawn.ghosts) drawGhosts(context, axes, look, track, time, overlay, body);
    parts.push(...figureParts(axes, look, track, pose, overlay, body));
  }
  drawParts(context, look, parts);
}
