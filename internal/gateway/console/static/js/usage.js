// What was used and what it cost, by day: a plot, and the same as a table.
import { html, useEffect, useMemo } from './html.js';
import { state, go } from './store.js';
import { useLoad } from './load.js';
import { Facts, Rows } from './list.js';
import { Tabs } from './approvals.js';
import { Chart } from './chart.js';
import { count, usd, visible } from './format.js';

const periods = { '7 days': 7, '30 days': 30, '90 days': 90 };
const groups = ['model', 'agent', 'user', 'channel'];
const day = 86400e3;
const mostRows = 1000;

// measures are what a plot can show: how to take it from a row, and how to write it.
const measures = {
  cost: { of: (r) => r.cost_usd, write: (n) => (n === 0 ? '$0' : usd(n)), note: (s) => (s.total === 0 && s.unpriced > 0 ? 'not priced' : '') },
  tokens: { of: (r) => r.input_tokens + r.output_tokens, write: (n) => (n >= 1e6 ? n / 1e6 + ' M' : n >= 1e3 ? n / 1e3 + ' k' : String(n)) },
  calls: { of: (r) => r.calls, write: String },
};

// daysOf lists the days of a report, the first first.
export function daysOf(since, until) {
  const all = [];
  for (let at = Math.floor(Date.parse(since) / day) * day; at < Date.parse(until); at += day) all.push(new Date(at).toISOString().slice(0, 10));
  return all;
}

const mostSeries = 6;
const none = 'none';

// seriesOf sums rows by day for each value of a key, the largest first; what is beyond the sixth is one series "other".
export function seriesOf(rows, key, days, of) {
  const at = new Map(days.map((d, i) => [d, i]));
  const all = new Map();
  for (const r of rows) {
    const name = r[key] || none;
    if (!all.has(name)) all.set(name, { name, values: days.map(() => 0), total: 0, unpriced: 0 });
    const s = all.get(name);
    if (at.has(r.day)) s.values[at.get(r.day)] += of(r);
    s.total += of(r);
    s.unpriced += r.unpriced_calls ?? 0;
  }
  const sorted = [...all.values()].sort((a, b) => b.total - a.total);
  if (sorted.length <= mostSeries) return sorted;
  const rest = sorted.splice(mostSeries - 1);
  const other = { name: `${rest.length} others`, values: days.map((_, i) => rest.reduce((n, s) => n + s.values[i], 0)), total: rest.reduce((n, s) => n + s.total, 0) };
  return [...sorted, other];
}

const columns = (by) => [
  { name: 'Day', class: 'when', cell: (r) => r.day },
  { name: by[0].toUpperCase() + by.slice(1), class: 'wrap', cell: (r) => visible(r[by]) || html`<span class="muted">${none}</span>` },
  { name: 'Calls', class: 'num', cell: (r) => count(r.calls) },
  { name: 'Tokens in', class: 'num', cell: (r) => count(r.input_tokens) },
  { name: 'Cached', class: 'num', cell: (r) => r.cached_tokens > 0 && count(r.cached_tokens) },
  { name: 'Tokens out', class: 'num', cell: (r) => count(r.output_tokens) },
  { name: 'Cost', class: 'num', cell: priced },
];

function priced(r) {
  const known = r.cost_usd ? usd(r.cost_usd) : '';
  return [known, r.unpriced_calls > 0 && (known ? `${count(r.unpriced_calls)} calls not priced` : 'not priced')].filter(Boolean).join(', ') || '$0';
}

export function Usage() {
  const { query } = state.route;
  const by = groups.includes(query.by) ? query.by : 'model';
  const period = periods[query.period] ? query.period : '30 days';
  const measure = measures[query.measure] ? query.measure : 'cost';
  const to = (fields) => go(['usage'], { by, period, measure, ...fields });
  const path = useMemo(() => {
    const since = new Date((Math.floor(Date.now() / day) - periods[period] + 1) * day).toISOString().slice(0, 10);
    return `v1/usage?group=day,${by}&since=${since}&limit=${mostRows}`;
  }, [by, period]);
  const report = useLoad(path, 60000);
  useEffect(() => void (document.title = 'Usage · Turnstone'), []);
  return html`<section class="page wide">
    <header><h1>Usage</h1><span class="grow"></span>
      <${Tabs} all=${Object.keys(measures)} at=${measure} onPick=${(m) => to({ measure: m })} />
      <label class="inline">by <select aria-label="Group by" value=${by} onChange=${(e) => to({ by: e.currentTarget.value })}>${groups.map((g) => html`<option key=${g} value=${g}>${g}</option>`)}</select></label>
      <label class="inline"><span class="hidden">Period</span><select aria-label="Period" value=${period} onChange=${(e) => to({ period: e.currentTarget.value })}>${Object.keys(periods).map((p) => html`<option key=${p} value=${p}>${p}</option>`)}</select></label></header>
    ${report.error && html`<p class="error" role="alert">${report.error} <button onClick=${report.again}>Try again</button></p>`}
    ${!report.data && !report.error && html`<p class="working">Loading…</p>`}
    ${report.data && html`<${Report} report=${report.data} by=${by} measure=${measure} />`}
  </section>`;
}

function Report({ report, by, measure }) {
  const { of, write, note } = measures[measure];
  const days = daysOf(report.since, report.until);
  const series = seriesOf(report.rows, by, days, of).map((s) => ({ ...s, note: note?.(s) }));
  const t = report.totals;
  return html`
    ${t && html`<${Facts} facts=${[
      ['Cost', priced(t)], ['Model calls', count(t.calls)], ['Tokens', `${count(t.input_tokens)} in, ${count(t.output_tokens)} out`],
      ['Cached', t.cached_tokens > 0 && count(t.cached_tokens)], ['Paid twice', t.rebilled_calls > 0 && `${count(t.rebilled_calls)} calls, ${usd(t.rebilled_cost_usd)}`],
    ]} />`}
    ${report.rows.length > 0 && series.every((s) => s.total === 0) && html`<p class="note">None of these calls has a price. The plots of tokens and calls show them.</p>`}
    ${series.some((s) => s.total > 0) && html`<${Chart} label=${`${measure} by day and ${by}`} days=${days} series=${series} write=${write} />`}
    ${report.next_page_token && html`<p class="note">There are more than ${count(mostRows)} rows; those of the last days are missing. Choose a shorter period.</p>`}
    <${Rows} spec=${{ title: 'Usage by day', rows: report.rows.toReversed(), columns: columns(by), empty: 'No model was called in this time.' }} />`;
}
