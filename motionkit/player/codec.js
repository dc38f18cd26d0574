// What `encode` in _page.py packed: base64 text to bytes, whole numbers, and tracks ready to be drawn.

function decodeBytes(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// Base-128 zigzag numbers, second differences over the rows, to rows x columns numbers times `step`.
function decodeRows(text, rows, columns, step) {
  const bytes = decodeBytes(text);
  const values = new Float32Array(rows * columns);
  const last = new Float64Array(columns);
  const speed = new Float64Array(columns);
  let at = 0;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      let number = 0;
      let weight = 1;
      let byte;
      do {
        byte = bytes[at];
        at += 1;
        number += (byte & 127) * weight;
        weight *= 128;
      } while (byte > 127);
      speed[column] += number % 2 ? -(number + 1) / 2 : number / 2;
      last[column] += speed[column];
      values[row * columns + column] = last[column] * step;
    }
  }
  return values;
}

function decodeTrack(part, step) {
  const shown = new Uint8Array(part.frames).fill(1);
  for (const [start, stop] of part.gaps) shown.fill(0, start, stop);
  const contacts = part.contacts ? decodeBytes(part.contacts) : null;
  const parents = new Array(part.joints).fill(-1);
  for (const [from, to] of part.bones) parents[to] = from;
  return measured({
    ...part,
    parents,
    shown,
    contacts,
    positions: decodeRows(part.positions, part.frames, part.joints * 3, step),
    follow: decodeRows(part.follow, part.frames, 2, step),
    path: part.path ? decodeRows(part.path, part.frames, 2, step) : null,
  });
}

// A track with what is measured on this page: its feet, and its skin.
function measured(track) {
  const feet = footMotion(track);
  if (!track.contacts && feet) {
    const soft = Uint8Array.from({ length: track.frames * 2 }, (_, i) => Math.round(255 * feet[i & 1].stands[i >> 1]));
    return { ...track, footing: feet, contacts: soft, body: bodyOf(track) };
  }
  return { ...track, footing: feet, body: bodyOf(track) };
}

// Frames before and after a time, and the part of the way between them; the last frame stays until the end.
function frameAt(track, time) {
  const place = Math.min(Math.max(time * track.fps, 0), track.frames - 1);
  const before = Math.min(Math.floor(place + 1e-6), track.frames - 1);
  return { before, after: Math.min(before + 1, track.frames - 1), part: Math.max(place - before, 0) };
}

// Joints at a time into `out`; false where the file has none to show.
function poseAt(track, time, out) {
  const { before, after, part } = frameAt(track, time);
  if (!track.shown[before]) return false;
  const size = track.joints * 3;
  const move = track.shown[after] ? part : 0;
  for (let i = 0; i < size; i += 1) {
    const start = track.positions[before * size + i];
    out[i] = start + (track.positions[after * size + i] - start) * move;
  }
  return true;
}

function followAt(track, time) {
  const { before, after, part } = frameAt(track, time);
  const between = (i) => track.follow[before * 2 + i] * (1 - part) + track.follow[after * 2 + i] * part;
  return [between(0), between(1)];
}
