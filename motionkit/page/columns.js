// Names of rows that put the columns of their table in the order of the row's values.
(() => {
  'use strict';
  const number = (text) => {
    const found = /^[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?=$|[\s%])/i.exec(text);
    return found ? Number(found[0].replaceAll(',', '')) : NaN;
  };
  // Places of the values, smallest or largest first; what is not there stays last, and equals keep their order.
  const ordered = (values, up) => {
    const there = values.map((_, place) => place).filter((place) => !['', '-', 'n/a'].includes(values[place]));
    const numbers = there.every((place) => !Number.isNaN(number(values[place])));
    const apart = (a, b) =>
      numbers ? number(values[a]) - number(values[b]) : values[a].localeCompare(values[b], 'en', { numeric: true });
    return [
      ...there.sort((a, b) => (up ? apart(a, b) : apart(b, a))),
      ...values.map((_, place) => place).filter((place) => !there.includes(place)),
    ];
  };
  for (const table of document.querySelectorAll('table.columns')) {
    const rows = [...table.rows].map((row) => ({ row, name: row.cells[0], cells: [...row.cells].slice(1) }));
    const buttons = [];
    for (const { name, cells } of rows.slice(1)) {
      const button = document.createElement('button');
      button.type = 'button';
      button.title = 'put the columns in the order of this row';
      button.append(...name.childNodes);
      name.append(button);
      buttons.push(button);
      button.addEventListener('click', () => {
        // Largest first, then smallest first, then as the page has them.
        const next = { '': 'descending', descending: 'ascending', ascending: '' }[button.dataset.order || ''];
        for (const one of buttons) delete one.dataset.order;
        const values = cells.map((cell) => cell.textContent.trim());
        const places = next ? ordered(values, next === 'ascending') : values.map((_, place) => place);
        for (const { row, cells: own } of rows) row.append(...places.map((place) => own[place]));
        if (next) button.dataset.order = next;
      });
    }
  }
})();
