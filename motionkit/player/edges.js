// Boxes that hide some of what they hold.

// Says by classes on which sides a box hides something, for the style to fade its edges; a box without buttons can then
// be reached by the keyboard.
function markEdges(box) {
  const mark = () => {
    const hidden = {
      above: box.scrollTop,
      below: box.scrollHeight - box.clientHeight - box.scrollTop,
      before: box.scrollLeft,
      after: box.scrollWidth - box.clientWidth - box.scrollLeft,
    };
    for (const [side, pixels] of Object.entries(hidden)) box.classList.toggle(side, pixels > 1);
    if (box.querySelector('button')) return;
    if (hidden.above + hidden.below > 1) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  };
  box.addEventListener('scroll', mark, { passive: true });
  new ResizeObserver(mark).observe(box);
}
