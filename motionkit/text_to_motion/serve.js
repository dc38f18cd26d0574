// The page of `motionkit generate --serve`: asks its server for motions, shows them, and saves them as files.
(() => {
  'use strict';
  const root = document.querySelector('.serve');
  const find = (selector) => root.querySelector(selector);
  const begin = JSON.parse(document.getElementById('begin').textContent);
  const form = find('form');
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  form.elements.seed.value = begin.seed;
  form.elements.guidance.value = begin.guidance;

  // The server.
  class Refused extends Error {}
  async function ask(path, options) {
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw Object.assign(new Refused('The server does not answer.'), { fix: 'start motionkit generate --serve again, and reload this page.' });
    }
    if (answer.ok) return answer;
    let error = { message: `The server answers ${answer.status}.` };
    try {
      ({ error } = await answer.json());
    } catch {
      // its own words are not there
    }
    throw Object.assign(new Refused(error.message), { why: error.why, fix: error.fix });
  }
  const fault = (error) => {
    const rows = [make('b', '', error.message)];
    if (error.why) rows.push(make('p', '', error.why));
    if (error.fix) rows.push(make('p', '', `Fix: ${error.fix}`));
    find('.fault').replaceChildren(...rows);
    find('.fault').hidden = false;
  };
  const caught = (action) => async (...values) => {
    find('.fault').hidden = true;
    try {
      await action(...values);
    } catch (error) {
      fault(error);
    }
  };

  // The motions that were made, the newest first.
  let motions = [];
  let open = null;
  const show = caught(async (motion) => {
    open = motion.number;
    list();
    const data = await (await ask(`motions/${motion.number}`)).json();
    if (open !== motion.number) return;
    const player = document.createElement('motionkit-player');
    player.setAttribute('autoplay', '');
    player.given = data;
    find('.stage').replaceChildren(player);
  });
  const save = caught(async (motion, kind, button) => {
    button.disabled = true;
    try {
      const content = await (await ask(`motions/${motion.number}.${kind}`)).blob();
      const link = document.createElement('a');
      link.href = URL.createObjectURL(content);
      link.download = `${motion.name}.${kind}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    } finally {
      button.disabled = false;
    }
  });
  const itemOf = (motion) => {
    const item = make('li', motion.number === open ? 'open' : '');
    const title = make('button', 'show', motion.text);
    title.type = 'button';
    title.title = 'Show it';
    title.addEventListener('click', () => show(motion));
    const facts = [`${motion.seconds.toFixed(1)} s`, `${motion.frames} frames`, `seed ${motion.seed}`, `guidance ${motion.guidance}`];
    item.append(title, make('p', 'about', facts.join(', ')));
    if (motion.seams) item.append(make('p', 'about', motion.seams));
    for (const [name, value] of motion.rows) item.append(make('p', 'about', `${name}: ${value}`));
    for (const text of motion.read) item.append(make('p', 'about', text));
    for (const text of motion.warnings) item.append(make('p', 'warn', text));
    const files = make('div', 'files');
    for (const kind of ['glb', 'bvh']) {
      const button = make('button', '', `Download ${kind.toUpperCase()}`);
      button.type = 'button';
      button.addEventListener('click', () => save(motion, kind, button));
      files.append(button);
    }
    const again = make('button', '', 'Edit');
    again.type = 'button';
    again.title = 'Put its text and seed into the form';
    again.addEventListener('click', () => {
      for (const name of ['text', 'seed', 'guidance']) form.elements[name].value = motion[name];
      form.elements.seconds.value = motion.asked;
      form.elements.text.focus();
    });
    files.append(again);
    item.append(files);
    return item;
  };
  const list = () => {
    find('.none').hidden = motions.length > 0;
    find('.list ol').replaceChildren(...motions.map(itemOf));
  };

  // Making one.
  const buttons = [find('.main'), find('.next')];
  const busy = (since) => {
    find('.state').textContent = `Making it: ${((performance.now() - since) / 1000).toFixed(0)} s`;
  };
  const start = caught(async () => {
    const { text, seconds, seed, guidance } = form.elements;
    const asked = { text: text.value, seconds: seconds.value, seed: Number(seed.value), guidance: Number(guidance.value) };
    const since = performance.now();
    busy(since);
    const clock = setInterval(() => busy(since), 1000);
    buttons.forEach((button) => (button.disabled = true));
    try {
      const answer = await ask('motions', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Motionkit-Token': begin.token },
        body: JSON.stringify(asked),
      });
      const motion = await answer.json();
      motions = [motion, ...motions];
      find('.state').textContent = `Made in ${motion.took.toFixed(1)} s`;
      await show(motion);
    } catch (error) {
      find('.state').textContent = '';
      throw error;
    } finally {
      clearInterval(clock);
      buttons.forEach((button) => (button.disabled = false));
    }
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    start();
  });
  find('.next').addEventListener('click', () => {
    form.elements.seed.value = Number(form.elements.seed.value) + 1;
    form.requestSubmit();
  });
  form.elements.text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });

  caught(async () => {
    motions = await (await ask('motions')).json();
    list();
    if (motions.length) await show(motions[0]);
  })();
})();
