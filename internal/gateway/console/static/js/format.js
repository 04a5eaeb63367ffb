// Numbers, times and JSON for people.

export function duration(ms) {
  if (ms == null || !Number.isFinite(ms) || ms < 0) return '';
  if (ms < 1000) return Math.round(ms) + ' ms';
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 1 : 0) + ' s';
  const s = Math.round(ms / 1000);
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60) + ' s';
  return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
}

export const count = (n) => (n ?? 0).toLocaleString('en-US');

export const usd = (n) => '$' + (n < 0.01 ? n.toPrecision(2) : n.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 }));

// cost is what a usage cost; models without a price are no part of it.
export function cost(usage) {
  const known = usage?.cost_usd ? usd(usage.cost_usd) : '';
  return [known, usage?.unpriced && (known ? 'some not priced' : 'not priced')].filter(Boolean).join(', ');
}

export function ago(time, now = Date.now()) {
  const s = Math.max(0, Math.round((now - time) / 1000));
  if (s < 60) return 'now';
  if (s < 3600) return Math.floor(s / 60) + ' min';
  if (s < 86400) return Math.floor(s / 3600) + ' h';
  if (s < 7 * 86400) return Math.floor(s / 86400) + ' d';
  return new Date(time).toLocaleDateString('en-CA');
}

export function moment(time) {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? '' : d.toLocaleString('en-CA', { dateStyle: 'short', timeStyle: 'short', hour12: false });
}

// exactMoment is a time to the millisecond, with its zone.
export function exactMoment(time) {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? '' : d.toISOString();
}

// pretty is JSON for reading, cut where nobody reads on.
export function pretty(value, most = 20000) {
  if (value === undefined || value === null) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return text.length > most ? text.slice(0, most) + '\n… ' + count(text.length - most) + ' more characters' : text;
}

// visible writes characters that have no shape of their own, or turn the order of others, the way JSON escapes them: what a person approves has to
// read as it runs. Of JSON it makes the same JSON, for such characters stand in its strings alone.
export function visible(text) {
  return String(text ?? '').replace(hidden, (c) => c.replace(/[^]/g, (unit) => '\\u' + unit.charCodeAt(0).toString(16).padStart(4, '0')));
}

const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export function oneLine(value, most = 100) {
  const text = (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)).replace(/\s+/g, ' ').trim();
  return text.length > most ? text.slice(0, most - 1) + '…' : text;
}
