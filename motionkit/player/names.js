// Joints of a person in any rig, found by their names: motionkit/rigs/bodymap.py is the same. NAMES comes from there.

const END = ' End';
const SIDE_WORDS = { left: 'left', l: 'left', right: 'right', r: 'right' };
const MIDDLE = ['c', 'm', 'x'];
const SAYS_NOTHING = ['joint', 'jnt', 'jt', 'bone', 'bend', 'stretch'];
const PREFIX = /^(Character\d*|Bip\d*|J_Bip|mixamorig\d*|CC_Base|def|DEF|b|[mf]_avg)[_\s-]+/;
const ABOVE = { knee: 'hip', ankle: 'knee', toe: 'ankle', elbow: 'shoulder', wrist: 'elbow' };

// Names without namespaces and without what most of them begin with, by joint; end sites have none.
function plainNames(names) {
  const short = new Map();
  names.forEach((name, joint) => {
    if (!name.endsWith(END)) short.set(joint, name.split(/[:|]/).at(-1));
  });
  const starts = new Map();
  for (const name of short.values()) {
    for (const match of name.matchAll(/[_\s.-]+/g)) {
      const start = name.slice(0, match.index + match[0].length);
      if (match.index) starts.set(start, (starts.get(start) ?? 0) + 1);
    }
  }
  const most = Math.max(5, 0.7 * short.size);
  const shared = [...starts].filter(([, count]) => count >= most).map(([start]) => start);
  const prefix = shared.reduce((a, b) => (b.length > a.length ? b : a), '');
  const found = new Map();
  for (const [joint, name] of short) {
    found.set(joint, (name.startsWith(prefix) ? name.slice(prefix.length) : name).replace(PREFIX, ''));
  }
  return found;
}

// Side and the rest of a name: LeftUpLeg and upleg.L become [left, upleg].
function sideAndRest(given) {
  const name = given
    .replace(/(?<=\p{L}) \d+$/u, '')
    .replaceAll('左', 'left ')
    .replaceAll('右', 'right ');
  let words = (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\P{L}a-zA-Z]+/gu) ?? []).map((word) => word.toLowerCase());
  const side = SIDE_WORDS[words.find((word) => Object.hasOwn(SIDE_WORDS, word))] ?? '';
  words = words.filter((word) => !Object.hasOwn(SIDE_WORDS, word) && !SAYS_NOTHING.includes(word));
  if (!side && words.length > 1) words = words.filter((word) => !MIDDLE.includes(word));
  const rest = words.join('');
  if (side) return [side, rest];
  for (const prefix of ['left', 'right']) {
    if (rest.startsWith(prefix) && rest.length > prefix.length) return [prefix, rest.slice(prefix.length)];
  }
  const poser = Object.values(NAMES.sided).flat().includes(rest.slice(1)) && SIDE_WORDS[rest[0]];
  return poser ? [poser, rest.slice(1)] : [side, rest];
}

function isBelow(joint, top, parents) {
  for (let at = joint; at >= 0; at = parents[at]) if (at === top) return true;
  return false;
}

// Roles (pelvis, head, left hip, ..., right wrist) to joints, as far as they are found.
function findRoles(names, parents) {
  const exact = new Map();
  const loose = new Map();
  const put = (table, key, joint) => table.set(key, [...(table.get(key) ?? []), joint]);
  for (const [joint, name] of plainNames(names)) {
    const [side, rest] = sideAndRest(name);
    put(exact, `${side} ${rest}`, joint);
    if (/\d$/.test(rest)) put(loose, `${side} ${rest.replace(/\d+$/, '')}`, joint);
  }
  const found = {};
  const wanted = Object.entries(NAMES.centre).map(([role, aliases]) => ['', role, aliases]);
  for (const side of ['left', 'right']) {
    for (const [role, aliases] of Object.entries(NAMES.sided)) wanted.push([side, role, aliases]);
  }
  for (const [side, role, aliases] of wanted) {
    const taken = Object.values(found);
    const top = found[`${side} ${ABOVE[role]}`];
    for (const [table, inside] of [[exact, true], [exact, false], [loose, true]]) {
      const fits = (joint) => !taken.includes(joint) && (!inside || top === undefined || isBelow(joint, top, parents));
      const joints = aliases.map((alias) => (table.get(`${side} ${alias}`) ?? []).filter(fits)).find((some) => some.length);
      if (joints) {
        found[`${side} ${role}`.trim()] = joints[0];
        break;
      }
    }
  }
  if (found.pelvis === undefined && parents.includes(-1)) found.pelvis = parents.indexOf(-1);
  for (const side of ['left', 'right']) {
    // A rig without hands ends its forearms at the wrists.
    const below = parents.flatMap((parent, joint) => (parent === (found[`${side} elbow`] ?? -2) ? [joint] : []));
    if (found[`${side} wrist`] === undefined && below.length === 1 && names[below[0]].endsWith(END)) found[`${side} wrist`] = below[0];
  }
  return found;
}

// Ankle and toe of the left foot and of the right one, without toes where a foot has none; null without an ankle.
function findFeet(roles, parents) {
  const feet = [];
  for (const side of ['left', 'right']) {
    const ankle = roles[`${side} ankle`];
    if (ankle === undefined) return null;
    feet.push([ankle, roles[`${side} toe`] ?? parents.indexOf(ankle)]);
  }
  return feet.flat().includes(-1) ? feet.map((foot) => foot.slice(0, 1)) : feet;
}

// L, R or - for each joint: it is on the left when its name with right for left is another joint's.
function findSides(names) {
  const plain = names.map((name) => (name.endsWith(END) ? name.slice(0, -END.length) : name).split(/[:|]/).at(-1));
  const mirrored = (name) => {
    const words = [['left', 'right'], ['Left', 'Right'], ['LEFT', 'RIGHT']];
    const partners = words.filter(([left]) => name.includes(left)).map(([left, right]) => name.replaceAll(left, right));
    for (const [left, right] of [['L', 'R'], ['l', 'r']]) {
      if (name.startsWith(left)) partners.push(right + name.slice(1));
      if (name.endsWith(left)) partners.push(name.slice(0, -1) + right);
      partners.push(name.replace(new RegExp(`(?<![A-Za-z])${left}(?![A-Za-z])`, 'g'), right));
    }
    return partners.filter((partner) => partner !== name);
  };
  const left = new Set();
  const right = new Set();
  for (const name of new Set(plain)) {
    for (const other of mirrored(name)) {
      if (!plain.includes(other)) continue;
      left.add(name);
      right.add(other);
    }
  }
  return plain.map((name) => (left.has(name) ? 'L' : right.has(name) ? 'R' : '-'));
}

// The joint at which a head is drawn; -1 when no joint is named as one.
function headJoint(names) {
  const last = (name) => name.split(/[:|]/).at(-1).toLowerCase().split(/[^a-z]+/).at(-1);
  for (const wanted of ['head', 'bun']) {
    const joint = names.findIndex((name) => !name.endsWith(END) && last(name) === wanted);
    if (joint >= 0) return joint;
  }
  return -1;
}
