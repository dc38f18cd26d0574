// Feet measured from positions: how high, how fast along the floor, standing or not, sliding or not.

const SLOW = 0.2405; // m/s up to which a joint counts as held still, as in motionkit/rigs/_contacts.py
const UNEVEN = 0.03;
const NEVER_DOWN = 0.05;
const LOW = 0.01; // metres above its own ground up to which a foot that goes along the floor slides
const SLIDES = 0.3; // m/s along the floor from which it does
const SLIDING = 0.2; // seconds that it goes on for; a foot that swings just above the floor is shorter there

function quantile(values, part) {
  const sorted = Float64Array.from(values).sort();
  const at = part * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}

// The height up to which a joint stands: where it is still, most of what is near its lowest.
function standingHeight(heights, still) {
  const held = heights.filter((_, i) => still[i]);
  const used = held.length >= 0.05 * heights.length && held.length ? held : heights;
  const lowest = quantile(used, 0.1) + UNEVEN;
  return quantile(used.filter((height) => height <= lowest), 0.8);
}

// Height, and speed up and along the floor, of one joint.
function jointMotion(track, joint) {
  const { frames, joints, positions, fps } = track;
  const reach = Math.max(1, Math.round(fps / 60));
  const at = (frame, axis) => positions[(frame * joints + joint) * 3 + axis];
  const [height, along, upward] = [0, 1, 2].map(() => new Float64Array(frames));
  for (let frame = 0; frame < frames; frame += 1) {
    const [a, b] = [Math.max(frame - reach, 0), Math.min(frame + reach, frames - 1)];
    const seconds = Math.max((b - a) / fps, 1e-9);
    height[frame] = at(frame, 1);
    upward[frame] = (at(b, 1) - at(a, 1)) / seconds;
    along[frame] = Math.hypot(at(b, 0) - at(a, 0), at(b, 2) - at(a, 2)) / seconds;
  }
  return { height, along, upward };
}

// For the left foot and the right one: metres above its ground, m/s along the floor, and 1 where it slides. The ground of
// each joint is the height that it keeps while it stands; the lower joint of a foot counts.
function footMotion(track) {
  if (!track.feet) return null;
  const feet = track.feet.map((foot) => foot.map((joint) => jointMotion(track, joint)));
  const grounds = feet.map((foot) =>
    foot.map(({ height, along, upward }) => standingHeight(height, along.map((v, i) => +(Math.hypot(v, upward[i]) < SLOW)))),
  );
  const level = grounds.map((foot, side) =>
    foot.map((ground, k) => (ground > grounds[1 - side][k] + NEVER_DOWN ? grounds[1 - side][k] : ground)),
  );
  return feet.map((foot, side) => {
    const height = new Float32Array(track.frames);
    const speed = new Float32Array(track.frames);
    const stands = new Float32Array(track.frames);
    for (let i = 0; i < track.frames; i += 1) {
      const above = foot.map((joint, k) => joint.height[i] - level[side][k]);
      const lower = above.indexOf(Math.min(...above));
      height[i] = above[lower];
      speed[i] = foot[lower].along[i];
      stands[i] = Math.max(...foot.map((joint, k) => contactScore(Math.max(above[k], 0), joint.upward[i], joint.along[i])));
    }
    return { height, speed, stands, slides: slidesOf(height, speed, track.fps) };
  });
}

// The soft contact of a point, as `contact_score` in motionkit/rigs/_contacts.py.
function contactScore(distance, vertical, horizontal) {
  const part = (x) => -Math.log1p(Math.exp(-x));
  const sum = part(2 * (0.5 - 100 * distance)) + part(0.5 * (40 - 100 * Math.abs(vertical))) + part(0.2 * (96.2 - 100 * horizontal));
  return Math.exp(sum / 3);
}

// 1 where a foot is low and goes along the floor for longer than a swing does.
function slidesOf(height, speed, fps) {
  const slides = new Uint8Array(height.length);
  const least = Math.max(2, Math.round(SLIDING * fps));
  for (let start = 0; start < height.length; start += 1) {
    let stop = start;
    while (stop < height.length && height[stop] < LOW && speed[stop] > SLIDES) stop += 1;
    if (stop - start >= least) slides.fill(1, start, stop);
    if (stop > start) start = stop;
  }
  return slides;
}
