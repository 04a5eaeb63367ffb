// Two texts by lines, and what a JSON Patch (RFC 6902) makes of a document.

import { parse } from './exact.js';

// The most lines of each side that are compared; longer ones are shown as removed and added.
const mostLines = 600;

// lines returns the lines of both texts in order, each with a sign: ' ' in both, '-' only before, '+' only after.
export function lines(before, after) {
  const a = before === undefined ? [] : before.split('\n');
  const b = after === undefined ? [] : after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const stays = (text) => ({ sign: ' ', text });
  return [...a.slice(0, head).map(stays), ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)), ...a.slice(a.length - tail).map(stays)];
}

function between(a, b) {
  if (a.length > mostLines || b.length > mostLines) return [...a.map((text) => ({ sign: '-', text })), ...b.map((text) => ({ sign: '+', text }))];
  // same[i][j] is the length of the longest common sequence of a from i and b from j.
  const same = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) same[i][j] = a[i] === b[j] ? same[i + 1][j + 1] + 1 : Math.max(same[i + 1][j], same[i][j + 1]);
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ sign: ' ', text: a[i++] });
      j++;
    } else if (i < a.length && (j >= b.length || same[i + 1][j] >= same[i][j + 1])) out.push({ sign: '-', text: a[i++] });
    else out.push({ sign: '+', text: b[j++] });
  }
  return out;
}

// folded leaves out the lines that stay and are further than around from a change: {skipped} stands for them, with their number.
export function folded(all, around = 3) {
  const near = new Set();
  all.forEach((l, i) => {
    if (l.sign !== ' ') for (let n = i - around; n <= i + around; n++) near.add(n);
  });
  const out = [];
  all.forEach((l, i) => {
    if (near.has(i)) out.push(l);
    else if (out.at(-1)?.skipped) out.at(-1).skipped++;
    else out.push({ skipped: 1 });
  });
  return out;
}

const written = (value) => (value === undefined ? undefined : JSON.stringify(value, null, 2));

const step = (text) => text.replaceAll('~1', '/').replaceAll('~0', '~');

// place finds where a pointer leads in a document: the value that holds it, and the key in there. null where there is none.
function place(document, pointer) {
  if (!pointer.startsWith('/')) return null;
  const keys = pointer.slice(1).split('/').map(step);
  const key = keys.pop();
  let at = document;
  for (const k of keys) {
    if (at === null || typeof at !== 'object' || !Object.hasOwn(at, k)) return null;
    at = at[k];
  }
  return at !== null && typeof at === 'object' ? { at, key } : null;
}

// changes returns what each operation does: {op, path, lines}. Operations work on a copy of the document, one after the other; undefined is a
// document that is not known, of which only what is added can be told.
export function changes(operations, document) {
  const copy = document === undefined ? undefined : parse(JSON.stringify(document)); // numbers stay as they are written
  return operations.map(({ op, path, value }) => {
    const found = copy === undefined ? null : place(copy, String(path));
    const old = found && Object.hasOwn(found.at, found.key) ? found.at[found.key] : undefined;
    const inserts = op === 'add' && Array.isArray(found?.at);
    const before = inserts ? undefined : written(old);
    const after = op === 'remove' ? undefined : written(value);
    if (found) change(found, op, value, inserts);
    return { op, path: String(path), lines: lines(before, after), blind: op !== 'add' && before === undefined };
  });
}

function change({ at, key }, op, value, inserts) {
  if (inserts) at.splice(key === '-' ? at.length : Number(key), 0, value);
  else if (op === 'remove' && Array.isArray(at)) at.splice(Number(key), 1);
  else if (op === 'remove') delete at[key];
  else if (Object.hasOwn(at, key) || key !== '__proto__') at[key] = value;
}
