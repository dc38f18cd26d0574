// The element <motionkit-player>: reads the tracks inside it, keeps the state, draws.

const FIRST = 12; // motions that are shown at first
const SHAPES = ['disc', 'square', 'diamond', 'bar']; // of swatches, where colours repeat
const SPEEDS = [0.1, 0.25, 0.5, 1, 1.5, 2, 4];

class MotionkitPlayer extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    if (this.given || this.querySelector('script')) this.start();
    else document.addEventListener('DOMContentLoaded', () => this.start(), { once: true });
  }

  start() {
    const data = this.given ?? JSON.parse(this.querySelector('script[type="application/json"]').textContent);
    this.tracks = data.tracks.map((part) => (part.shown ? part : decodeTrack(part, data.step)));
    this.whole = this.hasAttribute('page');
    this.state = { time: 0, playing: false, speed: 1, loop: true, follow: true, overlay: false, thick: true, ghosts: false };
    this.state.overlay = this.hasAttribute('overlay') && this.tracks.length > 1;
    this.order = this.tracks.map((_, i) => i).slice(0, FIRST).reverse(); // the longest shown first
    this.attachShadow({ mode: 'open' }).innerHTML = UI;
    this.find = (selector) => this.shadowRoot.querySelector(selector);
    this.canvas = this.find('canvas');
    for (const speed of SPEEDS) this.find('.speed select').append(new Option(`${speed}×`, String(speed), speed === 1, speed === 1));
    this.build(data);
    this.listen();
    this.resetView();
    this.theme();
    const asked = this.whole && /[#&]t=([\d.]+)/.exec(window.location.hash);
    const begin = asked ? asked[1] : this.getAttribute('time');
    if (begin) this.state.time = clamp(Number(begin) || 0, [0, this.lastFrame()]);
    const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.play(this.hasAttribute('autoplay') && !asked && !calm);
    this.arrange();
    this.setAttribute('ready', '');
  }

  build({ title, notes }) {
    this.heading = title;
    this.notes = notes;
    this.duration = Math.max(...this.tracks.map((track) => track.duration));
    this.scale = scoreScale(this.tracks);
    const many = this.tracks.length > 1;
    const names = namesOf(this.tracks.map((track) => track.title));
    const heading = title || (many ? '' : names[0].full);
    this.find('h2').textContent = heading;
    this.find('.about').textContent = many || names[0].full === heading ? '' : names[0].full;
    this.canvas.setAttribute('aria-label', `3D view: ${[title, ...names.map((name) => name.full)].join(', ')}`);
    this.find('.notes').replaceChildren(...notes.map((note) => make('li', '', note)));
    this.find('.player').classList.toggle('single', !many);
    this.find('.player').classList.toggle('feet-lanes', this.tracks.some((track) => track.contacts));
    this.chips = names.map(chipOf);
    this.chips.forEach((chip, i) => chip.addEventListener('click', () => this.show(i)));
    this.find('.chips').replaceChildren(...(many ? this.chips : []));
    this.find('.chips').classList.toggle('many', this.tracks.length > 6);
    this.rows = this.tracks.map((track, i) => laneOf(track, names[i], this.duration, this.scale, many));
    this.find('.lanes').replaceChildren(...this.rows.map((row) => row.lane));
    this.find('.lanes').classList.toggle('tall', this.tracks.length < 3);
    const bare = !many && !this.tracks[0].segments.length && !this.tracks[0].contacts;
    this.find('.lanes').hidden = bare;
    this.find('[data-do=overlay]').hidden = !many;
    this.find('[data-do=thick]').hidden = !this.tracks.some((track) => track.body);
    this.find('[data-do=open]').hidden = !this.takesFiles();
    const said = (name) => (!many || name.full === heading ? '' : this.tracks.length > 6 ? name.short : name.title);
    this.labels = names.map((name) => labelOf(name, said(name)));
    this.find('.labels').replaceChildren(...this.labels);
  }

  listen() {
    const act = this.actions();
    listenPointers(this.canvas, act);
    listenKeys(this.whole ? document : this, act);
    const seek = (part) => this.seek(part * this.duration);
    for (const place of ['.scrub', '.lanes']) listenScrub(this.find(place), this.find('.scrub'), seek);
    for (const place of ['.chips', '.lanes']) markEdges(this.find(place));
    for (const button of this.shadowRoot.querySelectorAll('[data-do]')) {
      const name = button.dataset.do;
      const does = { back: () => act.step(-1), forth: () => act.step(1) }[name] ?? act[name] ?? (() => act.flip(name));
      button.addEventListener('click', () => does());
    }
    this.find('.speed select').addEventListener('change', (event) => {
      this.state.speed = Number(event.target.value);
    });
    this.find('.up select').addEventListener('change', (event) => this.turn(event.target.value));
    if (this.takesFiles()) listenFiles(this.whole ? window : this, this.find('input'), (files) => this.open(files));
    new ResizeObserver(() => this.arrange()).observe(this.find('.stage'));
    new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      this.wake();
    }).observe(this);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.theme());
    new MutationObserver(() => this.theme()).observe(this, { attributeFilter: ['theme'] });
  }

  actions() {
    const { state } = this;
    const change = (does) => (value) => {
      does(value);
      this.wake();
    };
    return {
      toggle: () => this.play(!state.playing),
      seek: (time) => this.seek(time),
      jump: (end) => this.seek(end ? this.lastFrame() : 0),
      skip: (seconds) => this.seek(state.time + seconds),
      step: (frames) => this.step(frames),
      faster: (places) => {
        const place = SPEEDS.indexOf(state.speed) + places;
        state.speed = SPEEDS[clamp(place, [0, SPEEDS.length - 1])];
        this.find('.speed select').value = String(state.speed);
      },
      flip: (name) => {
        if (name === 'overlay' && this.tracks.length < 2) return;
        state[name] = !state[name];
        if (name === 'overlay' || name === 'follow') this.view.pan = [0, 0, 0];
        this.arrange();
      },
      reset: () => this.resetView(),
      save: () => this.shown().forEach((track) => saveFile(`${fileName(track.title)}.bvh`, bvhText(track))),
      open: () => this.find('input').click(),
      help: () => (this.find('dialog').open ? this.find('dialog').close() : this.find('dialog').showModal()),
      touched: () => this.canvas.focus({ preventScroll: true }),
      takesWheel: () => this.whole || this.shadowRoot.activeElement !== null,
      orbit: (dx, dy) => {
        this.view.yaw -= dx * 0.008;
        this.view.pitch = clamp(this.view.pitch + dy * 0.006, PITCH);
        this.wake();
      },
      pan: (dx, dy) => {
        const camera = this.camera();
        const axes = cameraAxes(camera);
        const size = camera.distance / axes.focal;
        this.view.pan = this.view.pan.map((value, i) => value - (dx * axes.right[i] - dy * axes.up[i]) * size);
        this.wake();
      },
      zoom: change((factor) => {
        this.view.zoom = clamp(this.view.zoom * factor, ZOOM);
      }),
    };
  }

  resetView() {
    this.view = { yaw: LOOK.yaw, pitch: LOOK.pitch, zoom: 1, pan: [0, 0, 0] };
    this.wake();
  }

  theme() {
    const system = window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
    const asked = this.getAttribute('theme');
    const name = asked === 'dark' || asked === 'light' ? asked : system;
    this.look = { ...LOOK[name], near: LOOK.near };
    const { style } = this.find('.player');
    for (const key of ['stage', 'text', 'quiet', 'left', 'right', 'slide']) style.setProperty(`--${key}`, this.look[key]);
    style.setProperty('--line', mix(this.look.stage, this.look.grid, 0.55));
    style.setProperty('--soft', mix(this.look.stage, this.look.grid, 0.24));
    style.setProperty('--accent', this.look.trail);
    style.setProperty('--tint', mix(this.look.stage, this.look.trail, 0.2));
    style.setProperty('color-scheme', name);
    this.tracks.forEach((track, i) => {
      track.shade = track.colour || this.look.tracks[i % this.look.tracks.length];
      for (const element of [this.chips[i], this.labels[i], this.rows[i].lane]) {
        element.style.setProperty('--swatch', track.shade);
        element.dataset.shape = SHAPES[Math.floor(i / this.look.tracks.length) % SHAPES.length];
      }
    });
    this.arrange();
  }

  // Whether BVH and GLB files may be dropped here: on a page that is a player, and where it is asked for.
  takesFiles() {
    return this.whole || this.hasAttribute('drop');
  }

  // Show the motions of files beside those that are here.
  async open(files) {
    const notes = [...this.notes];
    const before = this.tracks.length;
    for (const file of files) {
      try {
        if (this.tracks.length >= NAMES.most) refuse(`a page shows ${NAMES.most} motions`);
        const track = readMotion(file.name, new Uint8Array(await file.arrayBuffer()));
        this.tracks.push(track);
        this.order.push(this.tracks.length - 1);
        if (track.said) notes.push(`${file.name}: ${track.said}.`);
      } catch (error) {
        notes.push(`${file.name} is not shown: ${error.message}.`);
      }
    }
    if (this.tracks.length > before) {
      this.build({ title: this.heading, notes });
      this.theme();
      this.play(true);
    } else this.find('.notes').replaceChildren(...notes.map((note) => make('li', '', note)));
  }

  // Another direction of up for the motions that are shown.
  turn(axis) {
    this.tracks = this.tracks.map((track, i) => (this.order.includes(i) ? turnTrack(track, axis) : track));
    this.build({ title: this.heading, notes: this.notes });
    this.theme();
    this.resetView();
  }

  shown() {
    return this.tracks.filter((_, i) => this.order.includes(i));
  }

  show(i) {
    const { overlay } = this.state;
    this.order = chosen(this.order, i, overlay ? Infinity : roomFor(this.layout.size[0]));
    this.arrange();
  }

  // What depends on sizes and choices but not on the time.
  arrange() {
    const { state } = this;
    const stage = this.find('.stage');
    const width = stage.clientWidth;
    if (width && !state.overlay) this.order = this.order.slice(-roomFor(width));
    const tracks = this.shown();
    this.layout = layoutOf([width, stage.clientHeight], tracks.length, state.overlay);
    const { size, grid, small } = this.layout;
    this.ratio = Math.min(window.devicePixelRatio || 1, 3);
    this.canvas.width = Math.round(size[0] * this.ratio);
    this.canvas.height = Math.round(size[1] * this.ratio);
    const { style, classList } = this.find('.labels');
    style.gridTemplateColumns = `repeat(${grid[0]}, minmax(0, 1fr))`;
    style.gridTemplateRows = `repeat(${grid[1]}, minmax(0, 1fr))`;
    classList.toggle('overlay', state.overlay);
    classList.toggle('small', small);
    this.tracks.forEach((track, i) => {
      const on = this.order.includes(i);
      this.labels[i].hidden = !on;
      this.rows[i].lane.classList.toggle('off', !on);
      this.chips[i].setAttribute('aria-pressed', String(on));
      const { contacts } = this.rows[i];
      if (contacts) paintFeet(contacts, track, this.duration, this.look, this.ratio);
    });
    const count = tracks.length < this.tracks.length ? `${tracks.length} of ${this.tracks.length} shown` : '';
    if (this.find('.count').textContent !== count) this.find('.count').textContent = count;
    for (const name of ['overlay', 'follow', 'loop', 'thick', 'ghosts']) {
      this.find(`[data-do=${name}]`).setAttribute('aria-pressed', String(state[name]));
    }
    const ways = new Set(tracks.map((track) => track.up ?? 'y'));
    this.find('.up select').value = ways.size === 1 ? [...ways][0] : '';
    this.find('.legend').replaceChildren(...legendOf(tracks, state.overlay, this.look));
    fillAxis(this.find('.axis'), this.duration, this.find('.axis').clientWidth);
    this.draw(); // a canvas of another size is empty until then
  }

  play(on) {
    this.state.playing = on;
    if (on && this.state.time >= this.duration - 1e-6) this.state.time = 0;
    const button = this.find('[data-do=toggle]');
    button.setAttribute('aria-label', on ? 'Pause' : 'Play');
    button.classList.toggle('playing', on);
    if (!on) this.state.time = this.onFrame(this.state.time);
    this.before = undefined;
    this.wake();
  }

  seek(time) {
    this.state.time = clamp(time, [0, this.duration]);
    if (!this.state.playing) this.state.time = this.onFrame(this.state.time);
    this.wake();
  }

  fastest() {
    return Math.max(...this.shown().map((track) => track.fps));
  }

  lastFrame() {
    const fps = this.fastest();
    return Math.max(Math.ceil(this.duration * fps - 1e-6) - 1, 0) / fps;
  }

  // A pause shows a frame of the finest track, not something between two.
  onFrame(time) {
    const fps = this.fastest();
    return Math.min(Math.floor(time * fps + 1e-6) / fps, this.lastFrame());
  }

  step(frames) {
    this.play(false);
    this.state.time = clamp(this.onFrame(this.state.time) + frames / this.fastest(), [0, this.lastFrame()]);
    this.wake();
  }

  wake() {
    if (this.waiting || this.seen === false || !this.view) return;
    this.waiting = true;
    requestAnimationFrame((now) => {
      this.waiting = false;
      this.tick(now);
      this.draw();
      if (this.state.playing) this.wake();
    });
  }

  tick(now) {
    const { state } = this;
    if (!state.playing) return;
    const passed = this.before === undefined ? 0 : Math.min((now - this.before) / 1000, 0.25);
    this.before = now;
    state.time += passed * state.speed;
    if (state.time < this.duration) return;
    if (state.loop) state.time %= this.duration;
    else this.play(false);
  }

  // All that the picture of this moment is made of.
  shot() {
    const { state, view, layout, duration } = this;
    return { all: this.shown(), state, view, layout, duration };
  }

  camera() {
    return panelCamera(this.shown(), this.shot());
  }

  draw() {
    drawPanels(this.canvas.getContext('2d'), this.shot(), this.look, this.ratio);
    this.say();
  }

  // Numbers and texts of this moment.
  say() {
    const { time } = this.state;
    const part = time / this.duration;
    this.find('.playhead').style.left = `${100 * part}%`;
    const scrub = this.find('.scrub');
    scrub.setAttribute('aria-valuemax', this.duration.toFixed(2));
    scrub.setAttribute('aria-valuenow', time.toFixed(2));
    scrub.setAttribute('aria-valuetext', `${secondsText(time)} of ${secondsText(this.duration)}`);
    const step = gridStep(this.camera().distance);
    this.find('.step').textContent = `grid ${step < 1 ? `${round(step * 100)} cm` : `${step} m`}`;
    const first = Math.min(...this.order);
    this.tracks.forEach((track, i) => {
      const { before } = frameAt(track, time);
      const words = `frame ${before * track.stride} / ${(track.frames - 1) * track.stride}`;
      const ended = time >= track.duration && track.duration < this.duration - 1e-6;
      const state = ended ? `ended at ${secondsText(track.duration)}` : track.shown[before] ? '' : 'no data';
      const now = segmentAt(track, time);
      const segment = track.segments[now];
      this.rows[i].segments.forEach((block, k) => block.classList.toggle('now', k === now));
      this.rows[i].numbers?.forEach((place, side) => {
        const foot = track.footing?.[side];
        const none = time >= track.duration || !foot;
        place.textContent = none ? '' : `${(100 * Math.max(foot.height[before], 0)).toFixed(0)} cm  ${foot.speed[before].toFixed(1)} m/s`;
        place.classList.toggle('slides', !none && foot.slides[before] === 1);
      });
      if (this.order.includes(i)) {
        const [head, caption] = this.labels[i].children;
        head.lastChild.textContent = state || (this.tracks.length > 1 ? words : '');
        head.lastChild.classList.toggle('ended', ended);
        const named = head.querySelector('b') && track.segments.length === 1 && segment?.text === track.title;
        caption.textContent = segment && !named ? segment.text : '';
        if (segment && segment.score !== null) caption.append(make('b', '', scoreText(segment.score)));
      }
      if (i === first) {
        const clock = `${time.toFixed(2)} / ${secondsText(this.duration)}`;
        this.find('.clock').replaceChildren(make('b', '', clock), make('span', '', `${words} · ${round(track.fileFps)} fps`));
      }
    });
  }
}

// A still picture of a track in a canvas, with poses of the past; `theme` is light or dark.
MotionkitPlayer.thumbnail = (canvas, part, step, theme) => {
  const track = part.shown ? part : decodeTrack(part, step);
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const size = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = size.map((length) => Math.max(1, Math.round(length * ratio)));
  const look = { ...LOOK[theme], near: LOOK.near };
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = look.stage;
  context.fillRect(0, 0, ...size);
  const poses = Array.from({ length: track.frames }, (_, frame) => frame / track.fps);
  const spots = poses.map((_, k) => [0, 2].map((i) => track.positions[(k * track.joints + track.root) * 3 + i]));
  const centre = [0, 1].map((i) => (Math.min(...spots.map((spot) => spot[i])) + Math.max(...spots.map((spot) => spot[i]))) / 2);
  const reach = Math.max(...spots.map((spot) => Math.hypot(spot[0] - centre[0], spot[1] - centre[1]))) + 0.35 * track.height;
  const camera = {
    target: [centre[0], track.middle, centre[1]], yaw: LOOK.yaw, pitch: LOOK.pitch, width: size[0], height: size[1],
    distance: fitDistance(...size, LOOK.fov, track.height, reach, 10), fov: LOOK.fov, shift: 0,
  };
  const axes = cameraAxes(camera);
  drawFloor(context, axes, look, centre, camera.distance);
  poses.forEach((time, k) => {
    const pose = new Float32Array(track.joints * 3);
    if (!poseAt(track, time, pose)) return;
    const last = k === poses.length - 1;
    if (last) drawShadow(context, axes, look, track, pose, track.body);
    const faint = 0.75 - (0.25 * k) / poses.length;
    const parts = figureParts(axes, look, track, pose, false, track.body);
    drawParts(context, look, last ? parts : parts.map((p) => ({ ...p, body: null, colour: mix(p.colour, look.stage, faint) })));
  });
};
MotionkitPlayer.read = readMotion;
// A track of four poses of a track, for a thumbnail.
MotionkitPlayer.poses = (track) => {
  const size = track.joints * 3;
  const frames = [0.15, 0.38, 0.62, 0.85].map((part) => Math.min(Math.trunc(part * track.frames), track.frames - 1));
  const positions = new Float32Array(frames.length * size);
  frames.forEach((frame, k) => positions.set(track.positions.subarray(frame * size, (frame + 1) * size), k * size));
  return { ...track, positions, frames: frames.length, fps: 1, shown: new Uint8Array(frames.length).fill(1) };
};

function round(value) {
  return Number(value.toFixed(2));
}

if (!customElements.get('motionkit-player')) customElements.define('motionkit-player', MotionkitPlayer);
