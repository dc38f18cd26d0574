// The page that browses clips: a list with filter and order, pictures that are drawn as they come into view, and a player.
(() => {
  'use strict';
  const BATCH = 60; // cards that are made at a time
  const root = document.querySelector('.browse');
  const find = (selector) => root.querySelector(selector);
  const { folder, clips } = JSON.parse(document.getElementById('clips').textContent);
  const Player = customElements.get('motionkit-player');
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const plural = (number, thing) => `${number} ${thing}${number === 1 ? '' : 's'}`;
  clips.forEach((clip, place) => (clip.place = place));

  // Findings, filters and orders.
  const ofKind = (clip, severity) => clip.findings.filter((one) => one.severity === severity).length;
  const words = (clip) => [clip.title, clip.key, clip.origin, ...clip.captions].join('\n').toLowerCase();
  const kinds = [...new Set(clips.flatMap((clip) => clip.findings.map((one) => one.kind)))].sort();
  const findings = {
    'all clips': () => true,
    'without findings': (clip) => !clip.findings.length && !clip.why,
    'with findings': (clip) => clip.findings.length > 0,
    'with errors': (clip) => ofKind(clip, 'error') > 0 || Boolean(clip.why),
    ...(clips.some((clip) => clip.why) ? { 'that cannot be shown': (clip) => Boolean(clip.why) } : {}),
    ...Object.fromEntries(kinds.map((kind) => [`found: ${kind}`, (clip) => clip.findings.some((one) => one.kind === kind)])),
  };
  const names = new Intl.Collator('en', { numeric: true });
  const orders = {
    'in order': (a, b) => a.place - b.place,
    'by name': (a, b) => names.compare(a.title, b.title),
    'longest first': (a, b) => (b.seconds ?? 0) - (a.seconds ?? 0),
    'shortest first': (a, b) => (a.seconds ?? 0) - (b.seconds ?? 0),
    'fastest first': (a, b) => (b.speed ?? 0) - (a.speed ?? 0),
    'most findings first': (a, b) => ofKind(b, 'error') - ofKind(a, 'error') || b.findings.length - a.findings.length,
  };
  const splits = [...new Set(clips.map((clip) => clip.split).filter(Boolean))];
  const bar = find('.bar');
  const fill = (name, options) => bar.elements[name].append(...options.map((text) => new Option(text, text)));
  fill('findings', Object.keys(findings));
  fill('sort', Object.keys(orders));
  fill('split', ['all splits', ...splits]);
  bar.elements.split.hidden = splits.length < 2;

  // Pictures.
  const theme = () => (dark.matches ? 'dark' : 'light');
  const draw = (canvas) => canvas.isConnected && Player.thumbnail(canvas, canvas.clip.picture, canvas.clip.step, theme());
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      draw(target);
    }
  }, { rootMargin: '300px' });
  const redraw = () => find('.cards').querySelectorAll('canvas').forEach((canvas) => watcher.observe(canvas));
  dark.addEventListener('change', () => {
    watcher.disconnect();
    redraw();
  });

  // Cards.
  let shown = [];
  let made = 0;
  let open = null;
  const cardOf = (clip) => {
    const button = make('button', 'card');
    button.type = 'button';
    button.clip = clip;
    button.title = clip.origin;
    button.setAttribute('aria-pressed', String(clip === open));
    if (clip.picture) {
      const canvas = make('canvas');
      canvas.clip = clip;
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `Poses of ${clip.title}`);
      button.append(canvas);
    } else button.append(make('span', 'none', clip.why));
    const facts = make('small');
    if (clip.seconds !== undefined) facts.append(make('span', '', `${clip.seconds.toFixed(1)} s`));
    if (clip.speed >= 0.05) facts.append(make('span', '', `${clip.speed.toFixed(1)} m/s`));
    if (clip.split && splits.length > 1) facts.append(make('span', '', clip.split));
    const [errors, warnings] = [ofKind(clip, 'error'), ofKind(clip, 'warning')];
    if (errors) facts.append(make('span', 'errors', plural(errors, 'error')));
    if (warnings) facts.append(make('span', 'warnings', plural(warnings, 'warning')));
    button.append(make('b', '', clip.title), facts);
    button.addEventListener('click', () => show(clip));
    const item = make('li');
    item.append(button);
    return item;
  };
  const end = make('li');
  const more = () => {
    const cards = shown.slice(made, made + BATCH).map(cardOf);
    made += cards.length;
    find('.cards').append(...cards);
    for (const card of cards) {
      const canvas = card.querySelector('canvas');
      if (canvas) watcher.observe(canvas);
    }
    if (made < shown.length) find('.cards').append(end);
    else end.remove();
  };
  new IntersectionObserver(([entry]) => entry.isIntersecting && more(), { rootMargin: '600px' }).observe(end);
  const list = () => {
    const wanted = bar.querySelector('[type=search]').value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = findings[bar.elements.findings.value];
    const split = bar.elements.split.selectedIndex ? bar.elements.split.value : '';
    shown = clips.filter((clip) => fits(clip) && (!split || clip.split === split));
    shown = shown.filter((clip) => wanted.every((word) => words(clip).includes(word)));
    shown.sort((a, b) => orders[bar.elements.sort.value](a, b) || a.place - b.place);
    made = 0;
    watcher.disconnect();
    find('.cards').replaceChildren(...(shown.length ? [] : [make('li', 'empty', 'No clip fits.')]));
    find('.count').textContent = shown.length === clips.length ? '' : `${shown.length} of ${clips.length} clips`;
    more();
  };
  bar.addEventListener('input', (event) => event.target.type !== 'file' && list());
  bar.addEventListener('submit', (event) => event.preventDefault());

  // The motion of a clip: in this page, or in a script of the folder beside it.
  const waiting = new Map();
  window.motionkitMotion = (number, motion) => {
    waiting.get(number)?.(motion);
    waiting.delete(number);
  };
  const motionOf = (clip) => {
    if (clip.motion || !clip.file) return Promise.resolve(clip.motion);
    return new Promise((done, failed) => {
      const script = document.createElement('script');
      waiting.set(clip.number, (motion) => {
        clip.motion = motion;
        script.remove();
        done(motion);
      });
      script.onerror = () => failed(new Error(`${folder}/${clip.file} is not beside this page`));
      script.src = `${encodeURIComponent(folder)}/${clip.file}`;
      document.head.append(script);
    });
  };

  // The pane with the player.
  const pane = find('.pane');
  const facts = (clip) => {
    const about = [`${clip.key}, ${clip.origin}`];
    if (clip.frames) about.push(`${clip.frames} frames, ${Number(clip.fps.toFixed(2))} a second, ${clip.joints} joints`);
    const rows = about.map((text) => make('p', 'sub', text));
    for (const text of clip.warnings ?? []) rows.push(make('p', 'warning', text));
    for (const text of clip.captions.slice(0, 12)) if (text !== clip.title) rows.push(make('p', '', text));
    if (clip.findings.length) {
      const found = make('ul');
      for (const one of clip.findings) {
        const row = make('li', one.severity, `${one.kind}: ${one.detail}`);
        if (one.start !== null) {
          const go = make('button', '', `${one.start.toFixed(2)} s`);
          go.type = 'button';
          go.addEventListener('click', () => {
            const player = find('.stage motionkit-player');
            player?.play(false);
            player?.seek(one.start);
          });
          row.append(go);
        }
        found.append(row);
      }
      rows.push(found);
    } else if (!clip.why) rows.push(make('p', 'sub', 'Nothing was found to be wrong.'));
    return rows;
  };
  async function show(clip) {
    open = clip;
    root.classList.add('open');
    pane.hidden = false;
    root.style.setProperty('--top', `${find('.top').offsetHeight}px`);
    for (const card of find('.cards').querySelectorAll('.card')) card.setAttribute('aria-pressed', String(card.clip === clip));
    pane.querySelector('h2').textContent = clip.title;
    find('.facts').replaceChildren(...facts(clip));
    let inside = make('p', 'sub', clip.why ?? '');
    if (clip.track || clip.motion || clip.file) {
      try {
        const motion = clip.track ? { title: '', notes: clip.track.said ? [`${clip.track.said}.`] : [], tracks: [clip.track] } : await motionOf(clip);
        if (open !== clip) return;
        inside = document.createElement('motionkit-player');
        inside.setAttribute('autoplay', '');
        inside.setAttribute('bare', '');
        inside.given = { ...motion, title: '' };
      } catch (error) {
        inside = make('p', 'sub', error.message);
      }
    }
    find('.stage').replaceChildren(inside);
  }
  const close = () => {
    open = null;
    root.classList.remove('open');
    pane.hidden = true;
    find('.stage').replaceChildren();
    for (const card of find('.cards').querySelectorAll('.card')) card.setAttribute('aria-pressed', 'false');
  };
  const go = (by) => {
    const next = shown[shown.indexOf(open) + by];
    if (!next) return;
    show(next);
    while (made <= shown.indexOf(next)) more();
    [...find('.cards').querySelectorAll('.card')].find((card) => card.clip === next)?.scrollIntoView({ block: 'nearest' });
  };
  for (const button of pane.querySelectorAll('[data-go]')) {
    button.addEventListener('click', () => (button.dataset.go === '0' ? close() : go(Number(button.dataset.go))));
  }
  document.addEventListener('keydown', (event) => {
    if (event.target.closest?.('input, select') || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === 'Escape' && open) close();
    else if (by && open) {
      event.preventDefault();
      go(by);
    }
  });

  // Files that are dropped or chosen come first in the list.
  const take = async (files) => {
    const fresh = [];
    for (const file of files) {
      const clip = { key: file.name, origin: file.name, title: file.name.replace(/\.\w+$/, ''), captions: [], findings: [], split: '' };
      try {
        clip.track = Player.read(file.name, new Uint8Array(await file.arrayBuffer()));
        Object.assign(clip, { picture: Player.poses(clip.track), seconds: clip.track.duration, fps: clip.track.fileFps });
        Object.assign(clip, { frames: Math.round(clip.seconds * clip.fps), joints: clip.track.joints });
      } catch (error) {
        clip.why = `not shown: ${error.message}.`;
      }
      fresh.push(clip);
    }
    clips.unshift(...fresh);
    clips.forEach((clip, place) => (clip.place = place));
    list();
    if (fresh.length) show(fresh[0]);
  };
  const holds = (event) => event.dataTransfer?.types.includes('Files');
  for (const name of ['dragenter', 'dragover']) {
    window.addEventListener(name, (event) => {
      if (!holds(event)) return;
      event.preventDefault();
      root.classList.add('over');
    });
  }
  for (const name of ['dragleave', 'drop']) {
    window.addEventListener(name, (event) => (name === 'drop' || !event.relatedTarget) && root.classList.remove('over'));
  }
  window.addEventListener('drop', (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  const input = bar.querySelector('[type=file]');
  input.addEventListener('change', () => {
    take([...input.files]);
    input.value = '';
  });

  list();
  if (window.innerWidth > 860 && shown.length) show(shown[0]);
})();
