// Loads a page again that is written again and again. Where it was scrolled to and which parts were open stay; while
// someone uses it, it waits.
(() => {
  'use strict';
  const EVERY = Number(document.currentScript.dataset.seconds) * 1000;
  const CALM = 30_000; // milliseconds since the last touch, press or key from which nobody uses it
  const KEY = `motionkit ${location.pathname}`;
  const parts = () => [...document.querySelectorAll('details')];
  const nameOf = (part) => part.querySelector('summary').textContent;

  // A browser may refuse storage to a page that was opened as a file.
  const kept = (() => {
    try {
      return JSON.parse(sessionStorage.getItem(KEY));
    } catch {
      return null;
    }
  })();
  if (kept) {
    for (const part of parts()) if (kept.open.includes(nameOf(part))) part.open = true;
    history.scrollRestoration = 'manual';
    addEventListener('load', () => scrollTo(0, kept.top)); // players have their height by then
  }

  let used = -Infinity;
  for (const kind of ['pointerdown', 'wheel', 'keydown', 'touchmove']) {
    addEventListener(kind, () => { used = performance.now(); }, { capture: true, passive: true });
  }
  const busy = () =>
    performance.now() - used < CALM ||
    [...document.querySelectorAll('motionkit-player')].some((player) => player.state?.playing && player.seen);
  setInterval(() => {
    if (busy()) return;
    try {
      const open = parts().filter((part) => part.open).map(nameOf);
      sessionStorage.setItem(KEY, JSON.stringify({ top: scrollY, open }));
    } catch {
      // The browser then restores what it can.
    }
    location.reload();
  }, EVERY);
})();
