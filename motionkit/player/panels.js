// The panels of the picture: which tracks have one, where it is, and what its camera sees. All are functions of the state.

// Pixels above and below a figure for its texts: title above, caption below; in small panels both are above, and in
// narrow pages the frame has a line of its own.
const TEXTS = { large: [42, 50], small: [46, 14], narrow: [64, 8] };
const SMALL = 290;
const NARROW = 620;

// How many panels at most; in a narrow page more would be too small to see a motion in.
function roomFor(width) {
  return width < NARROW ? 4 : Infinity;
}

// The tracks that are shown, the longest shown first, after the name of one was pressed: there is always one, and where
// there is no room for another it takes the place of the first.
function chosen(order, pressed, most) {
  const others = order.filter((i) => i !== pressed);
  if (others.length < order.length) return others.length ? others : order;
  return [...others, pressed].slice(-most);
}

// The columns and rows in which `count` upright pictures come out largest.
function panelGrid(count, width, height) {
  let best = [1, count, 0];
  for (let columns = 1; columns <= count; columns += 1) {
    const rows = Math.ceil(count / columns);
    const size = Math.min(width / columns / 0.85, height / rows);
    if (size > best[2]) best = [columns, rows, size];
  }
  return best.slice(0, 2);
}

// Sizes in pixels of the picture and of each panel, for `count` figures.
function layoutOf(stage, count, overlay) {
  const size = stage.map((length) => Math.max(length, 1));
  const grid = overlay ? [1, 1] : panelGrid(count, ...size);
  const panel = [size[0] / grid[0], size[1] / grid[1]];
  const small = overlay || panel[1] < SMALL;
  const texts = TEXTS[!small ? 'large' : size[0] < NARROW ? 'narrow' : 'small'];
  return { size, grid, panel, small, texts };
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// How far overlaid tracks are from their common middle, at most, over the clip.
function apart(tracks, follow, duration) {
  const farthest = (places) => {
    const middle = [0, 1].map((i) => mean(places.map((place) => place[i])));
    return Math.max(...places.map((place) => Math.hypot(place[0] - middle[0], place[1] - middle[1])));
  };
  if (!follow) return farthest(tracks.map((track) => track.centre));
  const moments = Array.from({ length: 24 }, (_, k) => (duration * k) / 23);
  return Math.max(...moments.map((time) => farthest(tracks.map((track) => followAt(track, time)))));
}

// The view of some tracks in one panel; `shot` has `all` that are shown, `state`, `view`, `layout` and `duration`. All
// panels have one distance, so that sizes compare.
function panelCamera(tracks, shot) {
  const { all, state, view, layout } = shot;
  const [width, height] = layout.panel;
  const [above, below] = layout.texts;
  const places = tracks.map((track) => (state.follow ? followAt(track, state.time) : track.centre));
  const around = Math.max(...all.map((track) => (state.follow ? track.reach : track.spread)));
  const reach = around + (state.overlay ? apart(all, state.follow, shot.duration) : 0);
  const tall = Math.max(...all.map((track) => track.height));
  const target = [mean(places.map((p) => p[0])), Math.max(...all.map((t) => t.middle)), mean(places.map((p) => p[1]))];
  return {
    target: target.map((value, i) => value + view.pan[i]),
    yaw: view.yaw,
    pitch: view.pitch,
    distance: fitDistance(width, height, LOOK.fov, tall, reach, above + below) * view.zoom,
    width,
    height,
    fov: LOOK.fov,
    shift: (above - below) / 2,
  };
}

// The whole picture of one moment; `ratio` pixels of the screen for one of the page.
function drawPanels(context, shot, look, ratio) {
  const { size, grid, panel } = shot.layout;
  const { time, overlay } = shot.state;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = look.stage;
  context.fillRect(0, 0, ...size);
  (overlay ? [shot.all] : shot.all.map((track) => [track])).forEach((group, i) => {
    context.save();
    context.translate((i % grid[0]) * panel[0], Math.floor(i / grid[0]) * panel[1]);
    context.beginPath();
    context.rect(0, 0, ...panel);
    context.clip();
    drawScene(context, panelCamera(group, shot), look, group, time, overlay, shot.state);
    context.restore();
  });
  context.fillStyle = mix(look.stage, look.grid, 0.55);
  for (let i = 1; i < grid[0]; i += 1) context.fillRect(Math.round(i * panel[0]), 0, 1, size[1]);
  for (let i = 1; i < grid[1]; i += 1) context.fillRect(0, Math.round(i * panel[1]), size[0], 1);
}
