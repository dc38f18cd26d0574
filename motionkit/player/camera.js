// The camera: an orbit around a point, and perspective. `Camera` in _figure.py is the same for videos.

function cameraAxes(camera) {
  const sy = Math.sin(camera.yaw);
  const cy = Math.cos(camera.yaw);
  const sp = Math.sin(camera.pitch);
  const cp = Math.cos(camera.pitch);
  const forward = [-sy * cp, -sp, -cy * cp];
  return {
    eye: camera.target.map((value, i) => value - camera.distance * forward[i]),
    right: [cy, 0, -sy],
    up: [-sy * sp, cp, -cy * sp],
    forward,
    focal: camera.height / 2 / Math.tan(camera.fov / 2),
    middle: [camera.width / 2, camera.height / 2 + camera.shift],
  };
}

// A point of the world as the camera sees it: metres to the right, up and away.
function see(axes, x, y, z) {
  const dx = x - axes.eye[0];
  const dy = y - axes.eye[1];
  const dz = z - axes.eye[2];
  const along = (axis) => dx * axis[0] + dy * axis[1] + dz * axis[2];
  return [along(axes.right), along(axes.up), along(axes.forward)];
}

// The pixel of a point that `see` returned; it must be in front of the camera.
function place(axes, seen) {
  const scale = axes.focal / seen[2];
  return [axes.middle[0] + seen[0] * scale, axes.middle[1] - seen[1] * scale];
}

// The part of a line that lies in front of the camera as two pixels, or null.
function placeLine(axes, from, to, near) {
  if (from[2] < near && to[2] < near) return null;
  const cut = (a, b) => {
    if (a[2] >= near) return a;
    const part = (near - a[2]) / (b[2] - a[2]);
    return [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, near];
  };
  return [place(axes, cut(from, to)), place(axes, cut(to, from))];
}

// The distance from which a body `tall` metres high and `reach` metres around shows whole, with `spare` pixels of the
// height left for texts.
function fitDistance(width, height, fov, tall, reach, spare) {
  const slope = Math.tan(fov / 2);
  const free = Math.max(1 - spare / height, 0.5);
  return Math.max((tall * 0.58) / (slope * free), reach / ((slope * width) / height)) + reach * 0.3;
}
