// A document of the catalog as YAML, to read and to edit: what is read from the text is the document.
import { raw } from './exact.js';

const plain = /^[A-Za-z_/][\w ./@+()%,;!?'-]*$/;
const words = /^(?:true|false|null|yes|no|on|off|y|n|~)$/i;

// special are the characters that a YAML text may not have as they are, or that end a line in it.
const special = /[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g;

function scalar(v) {
  if (typeof v === 'string' && plain.test(v) && !words.test(v) && v === v.trim()) return v;
  return JSON.stringify(v).replace(special, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

const isBlock = (v) => typeof v === 'string' && v.includes('\n') && /^\S/.test(v) && v.search(special) < 0;

const leaf = (v) => v === null || typeof v !== 'object' || raw(v) !== undefined;
const empty = (v) => (Array.isArray(v) ? v.length === 0 : Object.keys(v).length === 0);

// yaml returns the text of a JSON value; depth bounds how far it is unfolded.
export function yaml(v, indent = '', depth = 0) {
  if (leaf(v)) return scalar(v);
  if (empty(v) || depth > 40) return JSON.stringify(v);
  const lines = Array.isArray(v)
    ? v.map((x) => indent + '- ' + below(x, indent + '  ', depth, true))
    : Object.entries(v).map(([k, x]) => indent + scalar(k) + ':' + below(x, indent + '  ', depth, false));
  return lines.join('\n');
}

function below(v, indent, depth, item) {
  if (isBlock(v)) {
    const keep = v.endsWith('\n\n') ? '|+' : v.endsWith('\n') ? '|' : '|-';
    return (item ? '' : ' ') + keep + '\n' + v.replace(/\n$/, '').split('\n').map((l) => (l ? indent + l : '')).join('\n');
  }
  if (leaf(v) || empty(v)) return (item ? '' : ' ') + scalar(v);
  const text = yaml(v, indent, depth + 1);
  return item ? text.slice(indent.length) : '\n' + text;
}
