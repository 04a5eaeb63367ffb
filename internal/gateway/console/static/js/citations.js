// Sources of an answer, under the numbers that its text gives them: [1], or [1, 3].

const marker = /^\[(\d{1,4}(?:[ \t]*,[ \t]*\d{1,4})*)\]$/;
const markers = /\[(\d{1,4}(?:[ \t]*,[ \t]*\d{1,4})*)\]/g;

const numbersOf = (text) => [...new Set(text.split(',').map(Number))];

// numbersAt returns the numbers of the marker that stands at a span of one of the texts, which are lists of characters.
function numbersAt(texts, start, end) {
  if (start == null || end == null || end - start > 200) return [];
  for (const characters of texts) {
    const m = marker.exec(characters.slice(start, end).join(''));
    if (m) return numbersOf(m[1]);
  }
  return [];
}

// addSources adds the citations of an answer to its sources. A number stands for one source, however often it is cited; citations without a
// number in the text are one source for each title and address.
export function addSources(sources, annotations, texts, facts = {}) {
  if (annotations.length === 0) return;
  const characters = texts.map((t) => [...t]); // places count characters, not UTF-16 units
  const spans = new Map();
  for (const a of annotations) {
    if (a.type && a.type !== 'citation') continue;
    const key = a.start_index == null ? Symbol('alone') : a.start_index + '-' + a.end_index;
    spans.set(key, [...(spans.get(key) ?? []), a]);
  }
  for (const cited of spans.values()) {
    // Numbers of no passage have no citation, and they are the highest of a marker.
    const numbers = numbersAt(characters, cited[0].start_index, cited[0].end_index);
    const real = new Set([...numbers].sort((a, b) => a - b).slice(0, cited.length));
    const inOrder = numbers.filter((n) => real.has(n));
    cited.forEach((a, i) => addSource(sources, a, inOrder[i] ?? 0, facts));
  }
}

function addSource(sources, a, number, facts) {
  const source = { ...facts, number, spanned: a.start_index != null, url: a.url ?? '', title: a.title ?? '', quote: a.cited_text ?? '' };
  const known = number > 0 ? sources.some((s) => s.number === number) : sources.some((s) => s.url === source.url && s.title === source.title);
  if (!known) sources.push(source);
}

// numbered returns the sources in the order of their numbers; those without one get the next that are free.
export function numbered(sources) {
  let last = Math.max(0, ...sources.map((s) => s.number));
  return sources.map((s) => ({ ...s, inText: s.number > 0 || !s.spanned, number: s.number || ++last })).sort((a, b) => a.number - b.number);
}

// linkNumbers makes the numbers of a text that have a source into what make(source) returns. Code and links stay as they are.
export function linkNumbers(root, sources, make) {
  const byNumber = new Map(sources.filter((s) => s.inText).map((s) => [s.number, s]));
  if (byNumber.size === 0) return;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (n) =>
    n.parentElement.closest('a, button, code, pre, figure') || !n.data.includes('[') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const found = [];
  while (walker.nextNode()) found.push(walker.currentNode);
  for (const node of found) {
    const parts = [];
    let at = 0;
    for (const m of node.data.matchAll(markers)) {
      if (!numbersOf(m[1]).some((n) => byNumber.has(n))) continue;
      parts.push(node.data.slice(at, m.index), '[', ...linked(m[1], byNumber, make), ']');
      at = m.index + m[0].length;
    }
    if (at > 0) node.replaceWith(...parts, node.data.slice(at));
  }
}

const linked = (list, byNumber, make) => list.split(/(\d+)/).map((part) => (byNumber.has(Number(part)) && part.trim() ? make(byNumber.get(Number(part))) : part));
