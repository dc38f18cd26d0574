// The values of a chart's curves at the step nearest to the pointer.
(() => {
  'use strict';
  const format = (value) => String(Number(value.toPrecision(3)));
  for (const chart of document.querySelectorAll('svg[data-frame]')) {
    const [left, perX, floor, perY, least, top] = chart.dataset.frame.split(' ').map(Number);
    const lines = [...chart.querySelectorAll('polyline[data-name]')];
    const curves = lines.map((line) => [...line.points].map((point) => [point.x, point.y]));
    const rule = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    rule.setAttribute('class', 'rule');
    rule.setAttribute('y2', String(floor));
    rule.setAttribute('y1', String(top));
    const tip = document.createElement('div');
    tip.className = 'tip';
    tip.hidden = true;
    chart.parentNode.append(tip);
    for (const title of chart.querySelectorAll('title')) title.remove(); // the tip says more
    const leave = () => {
      tip.hidden = true;
      rule.remove();
    };
    chart.addEventListener('pointerleave', leave);
    chart.addEventListener('pointermove', (event) => {
      const box = chart.getBoundingClientRect();
      const scale = chart.viewBox.baseVal.width / box.width;
      const at = (event.clientX - box.left) * scale;
      const found = curves.map((points) => points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a)));
      const x = found.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a))[0];
      rule.setAttribute('x1', x);
      rule.setAttribute('x2', x);
      chart.append(rule);
      const step = Math.round((x - left) / perX);
      const rows = found.map(([px, py], i) => {
        const own = Math.round((px - left) / perX);
        const late = Math.abs(own - step) > 0.5 ? ` (step ${own})` : '';
        return `${lines[i].dataset.name} ${format((floor - py) / perY + least)}${late}`;
      });
      tip.textContent = [`step ${step}`, ...rows].join('\n');
      tip.hidden = false;
      const place = box.left - chart.parentNode.getBoundingClientRect().left + x / scale;
      const room = chart.parentNode.clientWidth - tip.offsetWidth - 6;
      tip.style.left = `${Math.max(6, Math.min(place + 10, room))}px`;
    });
  }
})();
