// Fingers, mouse, wheel and keys.

const PITCH = [-0.15, 1.5];
const ZOOM = [0.08, 12];

function clamp(value, [low, high]) {
  return Math.min(Math.max(value, low), high);
}

// Dragging on the picture: orbit; with shift, another button or two fingers: move; pinching: zoom.
function listenPointers(canvas, act) {
  const down = new Map();
  const middle = () => {
    const places = [...down.values()];
    const mean = (axis) => places.reduce((sum, p) => sum + p[axis], 0) / places.length;
    const [x, y] = [mean('x'), mean('y')];
    return { x, y, spread: places.reduce((sum, p) => sum + Math.hypot(p.x - x, p.y - y), 0) / places.length };
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    const moving = event.button !== 0 || event.shiftKey || event.ctrlKey || event.metaKey;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY, moving });
    canvas.classList.add('held');
    act.touched();
  });
  canvas.addEventListener('pointermove', (event) => {
    const held = down.get(event.pointerId);
    if (!held) return;
    const before = middle();
    down.set(event.pointerId, { x: event.clientX, y: event.clientY, moving: held.moving });
    const after = middle();
    const [dx, dy] = [after.x - before.x, after.y - before.y];
    if (down.size > 1) {
      act.pan(dx, dy);
      if (before.spread > 8) act.zoom(before.spread / Math.max(after.spread, 8));
    } else if (held.moving) act.pan(dx, dy);
    else act.orbit(dx, dy);
  });
  const release = (event) => {
    down.delete(event.pointerId);
    if (!down.size) canvas.classList.remove('held');
  };
  for (const name of ['pointerup', 'pointercancel', 'lostpointercapture']) canvas.addEventListener(name, release);
  canvas.addEventListener('contextmenu', (event) => event.preventDefault());
  canvas.addEventListener('dblclick', () => act.reset());
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!act.takesWheel()) return; // in a longer page the wheel scrolls until the player was clicked
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 30 : 1;
      act.zoom(Math.exp(clamp(event.deltaY * lines, [-240, 240]) * 0.0016));
    },
    { passive: false },
  );
}

// Dragging along the time axis or the lanes; `axis` is as wide as the whole time.
function listenScrub(element, axis, seek) {
  const part = (event) => {
    const box = axis.getBoundingClientRect();
    return (event.clientX - box.left) / Math.max(box.width, 1);
  };
  element.addEventListener('pointerdown', (event) => {
    const to = part(event);
    if (event.button !== 0 || to < 0 || to > 1) return; // beside the axis are names and a scrollbar
    element.setPointerCapture(event.pointerId);
    seek(to);
  });
  element.addEventListener('pointermove', (event) => {
    if (element.hasPointerCapture(event.pointerId)) seek(clamp(part(event), [0, 1]));
  });
}

// Files that are dropped on a place, or chosen with an input.
function listenFiles(where, input, take) {
  const holds = (event) => event.dataTransfer?.types.includes('Files');
  for (const name of ['dragenter', 'dragover']) {
    where.addEventListener(name, (event) => {
      if (holds(event)) event.preventDefault();
    });
  }
  where.addEventListener('drop', (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    event.stopPropagation();
    take([...event.dataTransfer.files]);
  });
  input.addEventListener('change', () => {
    take([...input.files]);
    input.value = '';
  });
}

// What a key does; null for keys that are not ours.
function keyAction(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const keys = {
    ' ': ['toggle'],
    k: ['toggle'],
    ArrowLeft: event.shiftKey ? ['skip', -1] : ['step', -1],
    ArrowRight: event.shiftKey ? ['skip', 1] : ['step', 1],
    Home: ['jump', 0],
    End: ['jump', 1],
    '[': ['faster', -1],
    ']': ['faster', 1],
    l: ['flip', 'loop'],
    f: ['flip', 'follow'],
    o: ['flip', 'overlay'],
    b: ['flip', 'thick'],
    g: ['flip', 'ghosts'],
    d: ['save'],
    r: ['reset'],
    '?': ['help'],
  };
  return keys[event.key.length === 1 ? event.key.toLowerCase() : event.key] ?? null;
}

function listenKeys(where, act) {
  where.addEventListener('keydown', (event) => {
    const on = event.composedPath()[0];
    if (event.defaultPrevented || !(on instanceof Element)) return;
    if (on.closest('dialog')) return;
    const typing = on.matches('input, textarea, select, [contenteditable]');
    const pressing = on.matches('button, a, summary') && (event.key === ' ' || event.key === 'Enter');
    const action = !typing && !pressing && keyAction(event);
    if (!action) return;
    event.preventDefault();
    act[action[0]](action[1]);
  });
}
