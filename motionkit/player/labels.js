// What names the motions: buttons above the picture, labels on it, the legend below.

function make(tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

const FITS = 26; // letters of a title that is not shortened

// Names for places where a title is cut: without the words that another title begins with as well.
function shortNames(titles) {
  const words = titles.map((title) => title.split(' '));
  return titles.map((title, i) => {
    const shared = words.map((other, j) => {
      const at = other.findIndex((word, k) => word !== words[i][k]);
      return titles[j] === title ? 0 : at < 0 ? other.length : at;
    });
    const rest = words[i].slice(Math.max(...shared)).join(' ');
    return rest && title.length > FITS && title.length - rest.length > 12 ? `… ${rest}` : title;
  });
}

// For each track its whole name, a short one, and a number where several have one title: samples of one text.
function namesOf(titles) {
  const short = shortNames(titles);
  return titles.map((title, i) => {
    const alone = titles.indexOf(title) === titles.lastIndexOf(title);
    const number = alone ? 0 : titles.slice(0, i + 1).filter((other) => other === title).length;
    return { full: number ? `${title} · ${number}` : title, title, short: short[i], number };
  });
}

// A name as elements of which only the first is ever cut.
function nameParts({ number }, text, tag = 'span') {
  return [make(tag, 'said', text), ...(number ? [make('span', 'nth', `· ${number}`)] : [])];
}

function chipOf(name) {
  const chip = make('button', 'chip');
  chip.type = 'button';
  chip.append(make('i', 'swatch'), ...nameParts(name, name.short));
  chip.title = name.full;
  return chip;
}

function labelOf(name, text) {
  const label = make('div', 'label');
  const head = make('p', 'head');
  const who = make('span', 'who');
  if (text) who.append(...nameParts(name, text, 'b'));
  head.append(make('i', 'swatch'), who, make('span', 'frame'));
  const caption = make('p', 'caption');
  caption.addEventListener('click', () => caption.classList.toggle('whole')); // in a small picture it is cut
  label.append(head, caption);
  return label;
}

// What the colours of the figures mean, and a place for the size of the grid.
function legendOf(tracks, overlay, look) {
  const entry = (text, colour) => {
    const item = make('span', '');
    item.append(make('i', 'swatch'), text);
    item.firstChild.style.background = colour;
    return item;
  };
  const step = make('span', 'step');
  if (!tracks.some((track) => track.sides.includes('L'))) return [step];
  if (overlay) return ['left darker, right lighter', step];
  const slides = tracks.some((track) => track.footing?.some((foot) => foot.slides.includes(1)));
  return [entry('left', look.left), entry('right', look.right), ...(slides ? [entry('a foot slides', look.slide)] : []), step];
}
