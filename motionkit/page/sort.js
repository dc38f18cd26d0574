// Buttons that put the rows of a list in another order.
(() => {
  'use strict';
  for (const bar of document.querySelectorAll('[data-sorts]')) {
    const list = document.getElementById(bar.dataset.sorts);
    const buttons = [...bar.querySelectorAll('button')];
    const sort = (button, up) => {
      const value = (row) => Number(row.dataset[button.dataset.key]);
      const rows = [...list.children].sort((a, b) => (up ? value(a) - value(b) : value(b) - value(a)));
      list.append(...rows);
      for (const one of buttons) one.removeAttribute('aria-pressed');
      button.setAttribute('aria-pressed', 'true');
      button.dataset.up = String(up);
    };
    bar.hidden = false;
    for (const [place, button] of buttons.entries()) {
      // The first order counts up, the others start with the largest; a second click turns them around.
      button.addEventListener('click', () =>
        sort(button, button.hasAttribute('aria-pressed') ? button.dataset.up !== 'true' : place === 0),
      );
    }
  }
})();
