// A document of the catalog as YAML, for reading.
import { raw } from './exact.js';

const plain = /^[A-Za-z_./][\w ./@+()%-]*$/;
const words = /^(?:true|false|null|yes|no|on|off|y|n|~)$/i;

function scalar(v) {
  if (typeof v !== 'string') return JSON.stringify(v);
  return plain.test(v) && !words.test(v) && v === v.trim() ? v : JSON.stringify(v);
}

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
  if (typeof v === 'string' && v.includes('\n') && /^\S/.test(v) && !/[ \t]\n|[\0-\x08\x0b-\x1f]/.test(v)) {
    const keep = v.endsWith('\n\n') ? '|+' : v.endsWith('\n') ? '|' : '|-';
    return (item ? '' : ' ') + keep + '\n' + v.replace(/\n$/, '').split('\n').map((l) => (l ? indent + l : '')).join('\n');
  }
  if (leaf(v) || empty(v)) return (item ? '' : ' ') + scalar(v);
  const text = yaml(v, indent, depth + 1);
  return item ? text.slice(indent.length) : '\n' + text;
}
