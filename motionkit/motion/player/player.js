// The element <motionkit-player>: reads the tracks inside it, keeps the state, draws.

// Pixels above and below a figure for its texts: title above, caption below; in small panels both above.
const TEXTS = { large: [42, 76], small: [46, 14] };
const SMALL = 290;
const NARROW = 150;
// Pixels below several rows of panels for the legend and the tools, which lie on the picture of one row.
const BAR = 38;
const SPEEDS = [0.1, 0.25, 0.5, 1, 1.5, 2, 4];

class MotionkitPlayer extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    if (this.querySelector('script')) this.start();
    else document.addEventListener('DOMContentLoaded', () => this.start(), { once: true });
  }

  start() {
    const data = JSON.parse(this.querySelector('script[type="application/json"]').textContent);
    this.tracks = data.tracks.map((part) => decodeTrack(part, data.step));
    this.duration = Math.max(...this.tracks.map((track) => track.duration));
    this.scale = scoreScale(this.tracks);
    this.whole = this.hasAttribute('page');
    this.state = { time: 0, playing: false, speed: 1, loop: true, follow: true, overlay: false };
    this.visible = this.tracks.map((_, i) => i < 12);
    this.attachShadow({ mode: 'open' }).innerHTML = UI;
    this.find = (selector) => this.shadowRoot.querySelector(selector);
    this.canvas = this.find('canvas');
    this.build(data);
    this.listen();
    this.resetView();
    this.theme();
    const asked = this.whole && /[#&]t=([\d.]+)/.exec(window.location.hash);
    if (asked) this.state.time = clamp(Number(asked[1]) || 0, [0, this.duration]);
    const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.play(this.hasAttribute('autoplay') && !asked && !calm);
    this.arrange();
    this.setAttribute('ready', '');
  }

  build({ title, notes }) {
    const many = this.tracks.length > 1;
    const heading = title || (many ? '' : this.tracks[0].title);
    this.find('h2').textContent = heading;
    this.canvas.setAttribute('aria-label', `3D view: ${[title, ...this.tracks.map((t) => t.title)].join(', ')}`);
    const drawn = this.visible.filter(Boolean).length;
    const some = `${drawn} of ${this.tracks.length} motions are drawn; press another's name to see it.`;
    if (drawn < this.tracks.length) notes.push(some);
    this.find('.notes').append(...notes.map((note) => make('li', '', note)));
    this.find('.player').classList.toggle('single', !many);
    this.find('.player').classList.toggle('feet-lanes', this.tracks.some((track) => track.contacts));
    const short = shortNames(this.tracks.map((track) => track.title));
    this.chips = this.tracks.map((track, i) => {
      const chip = make('button', 'chip');
      chip.type = 'button';
      chip.append(make('i', 'swatch'), make('span', '', short[i]));
      chip.title = track.title;
      chip.addEventListener('click', () => this.show(i));
      return chip;
    });
    if (many) this.find('.chips').append(...this.chips);
    this.find('.chips').classList.toggle('many', this.tracks.length > 6);
    this.rows = this.tracks.map((track, i) => laneOf(track, short[i], this.duration, this.scale, many));
    this.find('.lanes').append(...this.rows.map((row) => row.lane));
    const bare = !many && !this.tracks[0].segments.length && !this.tracks[0].contacts;
    this.find('.lanes').hidden = bare;
    this.find('[data-do=overlay]').hidden = !many;
    this.find('.labels').append(
      ...(this.labels = this.tracks.map((track, i) => {
        const label = make('div', 'label');
        const head = make('p', 'head');
        head.append(make('i', 'swatch'), make('b', '', track.title === heading ? '' : this.tracks.length > 6 ? short[i] : track.title), make('span', 'frame'));
        label.append(head, make('p', 'caption'));
        return label;
      })),
    );
    const select = this.find('select');
    for (const speed of SPEEDS) select.append(new Option(`${speed}×`, String(speed), speed === 1, speed === 1));
  }

  listen() {
    const act = this.actions();
    listenPointers(this.canvas, act);
    listenKeys(this.whole ? document : this, act);
    const seek = (part) => this.seek(part * this.duration);
    listenScrub(this.find('.scrub'), seek);
    listenScrub(this.find('.over'), seek);
    for (const button of this.shadowRoot.querySelectorAll('[data-do]')) {
      const name = button.dataset.do;
      const does = { back: () => act.step(-1), forth: () => act.step(1) }[name] ?? act[name] ?? (() => act.flip(name));
      button.addEventListener('click', () => does());
    }
    this.find('select').addEventListener('change', (event) => {
      this.state.speed = Number(event.target.value);
    });
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
        this.find('select').value = String(state.speed);
      },
      flip: (name) => {
        if (name === 'overlay' && this.tracks.length < 2) return;
        state[name] = !state[name];
        if (name !== 'loop') this.view.pan = [0, 0, 0];
        this.arrange();
      },
      reset: () => this.resetView(),
      help: () => (this.find('dialog').open ? this.find('dialog').close() : this.find('dialog').showModal()),
      touched: () => this.canvas.focus({ preventScroll: true }),
      takesWheel: () => this.whole || this.shadowRoot.activeElement !== null,
      orbit: (dx, dy) => {
        this.view.yaw -= dx * 0.008;
        this.view.pitch = clamp(this.view.pitch + dy * 0.006, PITCH);
        this.wake();
      },
      pan: (dx, dy) => {
        const axes = cameraAxes(this.camera(this.shown()));
        const size = this.camera(this.shown()).distance / axes.focal;
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
    for (const key of ['stage', 'text', 'quiet', 'left', 'right']) style.setProperty(`--${key}`, this.look[key]);
    style.setProperty('--line', mix(this.look.stage, this.look.grid, 0.55));
    style.setProperty('--soft', mix(this.look.stage, this.look.grid, 0.24));
    style.setProperty('--accent', this.look.trail);
    style.setProperty('--tint', mix(this.look.stage, this.look.trail, 0.2));
    style.setProperty('color-scheme', name);
    this.tracks.forEach((track, i) => {
      track.shade = track.colour || this.look.tracks[i % this.look.tracks.length];
      for (const element of [this.chips[i], this.labels[i], this.rows[i].lane]) {
        element.style.setProperty('--swatch', track.shade);
      }
    });
    this.arrange();
  }

  shown() {
    return this.tracks.filter((_, i) => this.visible[i]);
  }

  show(i) {
    this.visible[i] = !this.visible[i];
    if (!this.visible.some(Boolean)) this.visible[i] = true;
    this.arrange();
  }

  // What depends on sizes and choices but not on the time.
  arrange() {
    const { state } = this;
    const stage = this.find('.stage');
    this.ratio = Math.min(window.devicePixelRatio || 1, 3);
    const tracks = this.shown();
    const gridOf = (size) => (state.overlay ? [1, 1] : panelGrid(tracks.length, ...size));
    this.size = [Math.max(stage.clientWidth, 1), Math.max(stage.clientHeight, 1)];
    const bar = gridOf(this.size)[1] > 1 ? BAR : 0;
    this.size[1] = Math.max(this.size[1] - bar, 1);
    this.grid = gridOf(this.size);
    stage.style.setProperty('--bar', `${bar}px`);
    this.canvas.width = Math.round(this.size[0] * this.ratio);
    this.canvas.height = Math.round(this.size[1] * this.ratio);
    const { style, classList } = this.find('.labels');
    style.gridTemplateColumns = `repeat(${this.grid[0]}, minmax(0, 1fr))`;
    style.gridTemplateRows = `repeat(${this.grid[1]}, minmax(0, 1fr))`;
    this.small = state.overlay || this.size[1] / this.grid[1] < SMALL;
    classList.toggle('overlay', state.overlay);
    classList.toggle('small', this.small);
    classList.toggle('narrow', !state.overlay && this.size[0] / this.grid[0] < NARROW);
    this.tracks.forEach((_, i) => {
      this.labels[i].hidden = !this.visible[i];
      this.rows[i].lane.classList.toggle('off', !this.visible[i]);
      this.chips[i].setAttribute('aria-pressed', String(this.visible[i]));
      const { contacts } = this.rows[i];
      if (contacts) paintContacts(contacts, this.tracks[i], this.duration, this.look, this.ratio);
    });
    for (const name of ['overlay', 'follow', 'loop']) {
      this.find(`[data-do=${name}]`).setAttribute('aria-pressed', String(state[name]));
    }
    this.legend(tracks);
    fillAxis(this.find('.axis'), this.duration, this.find('.axis').clientWidth);
    this.wake();
  }

  legend(tracks) {
    const legend = this.find('.legend');
    const sided = tracks.some((track) => track.sides.includes('L'));
    const entry = (text, colour) => {
      const item = make('span', '');
      item.append(make('i', 'swatch'), text);
      item.firstChild.style.background = colour;
      return item;
    };
    legend.replaceChildren(make('span', 'step'));
    if (sided && this.state.overlay) legend.prepend('left darker, right lighter');
    else if (sided) legend.prepend(entry('left', this.look.left), entry('right', this.look.right));
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

  // The view of some tracks in one panel; all panels have one distance, so that sizes compare.
  camera(tracks) {
    const { state, view, size, grid } = this;
    const [width, height] = [size[0] / grid[0], size[1] / grid[1]];
    const all = this.shown();
    const places = tracks.map((track) => (state.follow ? followAt(track, state.time) : track.centre));
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const apart = Math.max(0, ...this.shifts(all));
    const [above, below] = TEXTS[this.small ? 'small' : 'large'];
    const reach = Math.max(...all.map((track) => (state.follow ? track.reach : track.spread))) + apart;
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

  // How far overlaid tracks are from their common middle, at most, over the clip.
  shifts(tracks) {
    if (!this.state.overlay) return [0];
    if (!this.state.follow) {
      const mean = (i) => tracks.reduce((sum, track) => sum + track.centre[i], 0) / tracks.length;
      return tracks.map((track) => Math.hypot(track.centre[0] - mean(0), track.centre[1] - mean(1)));
    }
    return Array.from({ length: 24 }, (_, k) => {
      const places = tracks.map((track) => followAt(track, (this.duration * k) / 23));
      const mean = (i) => places.reduce((sum, place) => sum + place[i], 0) / places.length;
      return Math.max(...places.map((place) => Math.hypot(place[0] - mean(0), place[1] - mean(1))));
    });
  }

  draw() {
    const { state, size, grid, ratio } = this;
    const context = this.canvas.getContext('2d');
    const tracks = this.shown();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.look.stage;
    context.fillRect(0, 0, ...size);
    const [width, height] = [size[0] / grid[0], size[1] / grid[1]];
    (state.overlay ? [tracks] : tracks.map((track) => [track])).forEach((group, i) => {
      const [x, y] = [(i % grid[0]) * width, Math.floor(i / grid[0]) * height];
      context.save();
      context.beginPath();
      context.rect(x, y, width, height);
      context.clip();
      context.translate(x, y);
      drawScene(context, this.camera(group), this.look, group, state.time, state.overlay);
      context.restore();
    });
    context.fillStyle = mix(this.look.stage, this.look.grid, 0.55);
    for (let i = 1; i < grid[0]; i += 1) context.fillRect(Math.round(i * width), 0, 1, size[1]);
    for (let i = 1; i < grid[1]; i += 1) context.fillRect(0, Math.round(i * height), size[0], 1);
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
    const step = gridStep(this.camera(this.shown()).distance);
    this.find('.step').textContent = `grid ${step < 1 ? `${round(step * 100)} cm` : `${step} m`}`;
    const first = this.visible.indexOf(true);
    this.tracks.forEach((track, i) => {
      const { before } = frameAt(track, time);
      const words = `frame ${before * track.stride} / ${(track.frames - 1) * track.stride}`;
      const state = time >= track.duration ? ', ended' : track.shown[before] ? '' : ', no data';
      const now = segmentAt(track, time);
      const segment = track.segments[now];
      this.rows[i].segments.forEach((block, k) => block.classList.toggle('now', k === now));
      if (this.visible[i]) {
        const [head, caption] = this.labels[i].children;
        head.lastChild.textContent = this.tracks.length > 1 || state ? `${words}${state}` : '';
        caption.textContent = segment ? segment.text : '';
        if (segment && segment.score !== null) caption.append(make('b', '', scoreText(segment.score)));
      }
      if (i === first) {
        const clock = `${time.toFixed(2)} / ${secondsText(this.duration)}`;
        this.find('.clock').replaceChildren(make('b', '', clock), make('span', '', `${words} · ${round(track.fileFps)} fps`));
      }
    });
  }
}

function round(value) {
  return Number(value.toFixed(2));
}

if (!customElements.get('motionkit-player')) customElements.define('motionkit-player', MotionkitPlayer);
