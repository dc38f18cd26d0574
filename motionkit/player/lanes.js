// What lies below the picture: the time axis, and for each track its segments, scores and feet.

function secondsText(seconds) {
  if (seconds < 60) return `${seconds.toFixed(2)} s`;
  const whole = Math.floor(seconds / 60);
  return `${whole}:${(seconds - whole * 60).toFixed(1).padStart(4, '0')}`;
}

// A round distance between the numbers of the axis so that there are at most `most` of them.
function tickStep(duration, most) {
  const steps = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
  return steps.find((step) => duration / step <= most) ?? duration;
}

function tickText(time, step) {
  if (step >= 60) return `${Math.round(time / 60)} min`;
  return `${Number(time.toFixed(2))} s`;
}

// From 0 to 1: where scores lie in [0, 1] as they are, else between the lowest and the highest of the page.
function scoreScale(tracks) {
  const scores = tracks.flatMap((track) => track.segments.map((segment) => segment.score)).filter((s) => s !== null);
  if (!scores.length) return null;
  const low = Math.min(0, ...scores);
  const high = Math.max(...scores);
  const inside = low >= 0 && high <= 1;
  const [from, to] = inside ? [0, 1] : [Math.min(...scores), high];
  return { from, to, part: (score) => (to > from ? (score - from) / (to - from) : 1) };
}

function scoreText(score) {
  return Math.abs(score) >= 1000 || (score !== 0 && Math.abs(score) < 0.01) ? score.toExponential(1) : score.toFixed(2);
}

// The segment that a time falls into: the last one that has begun and not ended.
function segmentAt(track, time) {
  const inside = ({ start, end }) => time >= start - 1e-9 && time < end - 1e-9;
  return track.segments.findLastIndex(inside);
}

function fillAxis(axis, duration, width) {
  const step = tickStep(duration, Math.max(2, Math.floor(width / 64)));
  axis.replaceChildren();
  for (let time = 0; time < duration - step * 0.35 || time === 0; time += step) {
    const tick = make('span', 'tick', tickText(time, step));
    tick.style.left = `${(100 * time) / duration}%`;
    axis.append(tick);
  }
}

function segmentBlock(segment, duration, scale) {
  const block = make('div', 'segment');
  block.style.left = `${(100 * segment.start) / duration}%`;
  block.style.width = `${(100 * Math.max(Math.min(segment.end, duration) - segment.start, 0)) / duration}%`;
  block.append(make('span', 'words', segment.text));
  let said = `${segment.text}, ${segment.start.toFixed(2)} to ${segment.end.toFixed(2)} s`;
  if (segment.score !== null) {
    const bar = make('span', 'bar');
    bar.style.width = `${100 * Math.min(Math.max(scale.part(segment.score), 0), 1)}%`;
    block.append(make('span', 'score', scoreText(segment.score)), bar);
    said += `, score ${scoreText(segment.score)}`;
  }
  block.title = said;
  return block;
}

// Rows for one track; `row.segments` and `row.contacts` are what changes later.
function laneOf(track, name, duration, scale, many) {
  const lane = make('div', 'lane');
  const row = { lane, segments: [], contacts: null };
  if (many) {
    const label = make('div', 'name');
    label.append(make('i', 'swatch'), ...nameParts(name, name.short));
    label.title = name.full;
    lane.append(label);
  }
  if (track.segments.length) {
    const strip = make('div', 'strip');
    row.segments = track.segments.map((segment) => segmentBlock(segment, duration, scale));
    strip.append(...row.segments);
    lane.append(strip);
  }
  if (track.contacts) {
    const strip = make('div', 'feet');
    strip.setAttribute('role', 'img');
    strip.setAttribute('aria-label', `Feet of ${name.full}, left above, right below: ${footingText(track)}`);
    strip.title = footingText(track);
    row.contacts = document.createElement('canvas');
    row.numbers = ['left', 'right'].map((side) => make('span', `reading ${side}`));
    strip.append(row.contacts, make('span', 'foot left', 'L'), make('span', 'foot right', 'R'), ...row.numbers);
    lane.append(strip);
  }
  if (track.duration < duration - 1e-6) {
    const over = make('div', 'gone', `ends at ${secondsText(track.duration)}`);
    over.style.setProperty('--part', track.duration / duration);
    lane.append(over);
  }
  if (!track.segments.length && !track.contacts) {
    const strip = make('div', 'strip plain');
    const block = make('div', 'length');
    block.style.width = `${(100 * track.duration) / duration}%`;
    strip.append(block);
    lane.append(strip);
  }
  return row;
}

// What the lane of the feet shows, in words.
function footingText(track) {
  if (!track.footing) return 'contacts with the floor';
  const most = (key) => Math.max(...track.footing.map((foot) => foot[key].reduce((a, b) => Math.max(a, b), 0)));
  const slid = track.footing.map((foot) => foot.slides.reduce((a, b) => a + b, 0) / track.fps);
  const slide = slid[0] + slid[1] > 0 ? `; slides for ${slid[0].toFixed(2)} s left, ${slid[1].toFixed(2)} s right` : '; no foot slides';
  return `area: height, up to ${(100 * most('height')).toFixed(0)} cm; line: speed along the floor, up to ${most('speed').toFixed(1)} m/s; bar: contact, measured${slide}`;
}

// For each foot its contact as a bar, red where it slides; in a tall lane its height and speed above the bar.
function paintFeet(canvas, track, duration, look, scale) {
  const width = Math.max(1, Math.round(canvas.clientWidth * scale));
  const height = Math.max(2, Math.round(canvas.clientHeight * scale));
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  const gap = Math.round(2 * scale);
  const tall = Math.floor((height - gap) / 2);
  const bar = tall > 14 * scale ? Math.round(4 * scale) : tall;
  const frameOf = (x) => Math.floor(((x + 0.5) / width) * duration * track.fps);
  const most = (key, least) => Math.max(least, ...track.footing.map((foot) => foot[key].reduce((a, b) => Math.max(a, b), 0)));
  for (const foot of [0, 1]) {
    const top = foot * (tall + gap);
    const floor = top + tall - bar;
    const own = track.footing?.[foot];
    const colour = foot ? look.right : look.left;
    for (let x = 0; x < width; x += 1) {
      const frame = frameOf(x);
      if (frame >= track.frames) break;
      const slides = own?.slides[frame];
      context.fillStyle = slides ? look.slide : colour;
      context.globalAlpha = slides ? 1 : track.contacts[frame * 2 + foot] / 255;
      if (context.globalAlpha > 0.02) context.fillRect(x, floor, 1, bar);
    }
    context.globalAlpha = 1;
    if (!own || bar === tall) continue;
    const rows = { height: most('height', 0.1), speed: most('speed', 1) };
    const y = (key, frame) => floor - 1 - (Math.max(own[key][frame], 0) / rows[key]) * (floor - top - 3);
    const across = (frame) => ((frame + 0.5) / (duration * track.fps)) * width;
    const line = (key) => {
      const path = new Path2D();
      const every = Math.max(1, Math.floor(track.frames / width));
      for (let frame = 0; frame < track.frames; frame += every) path.lineTo(across(frame), y(key, frame));
      return path;
    };
    const area = line('height');
    area.lineTo(across(track.frames - 1), floor - 1);
    area.lineTo(across(0), floor - 1);
    context.fillStyle = clear(colour, 0.38);
    context.fill(area);
    context.lineWidth = scale;
    context.strokeStyle = clear(look.text, 0.75);
    context.stroke(line('speed'));
    // The speed of a foot that slides is red as its bar is.
    context.fillStyle = look.slide;
    for (let x = 0; x < width; x += 1) {
      const frame = frameOf(x);
      if (frame < track.frames && own.slides[frame]) context.fillRect(x, y('speed', frame) - scale, 1, 2 * scale);
    }
  }
}
