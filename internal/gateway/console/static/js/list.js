// A list of the API as a table: filters, columns, pages. What each list shows is in lists.js.
import { html, useMemo, useState } from './html.js';
import { state, go, link, show } from './store.js';
import { useLoad } from './load.js';
import { Json } from './json.js';

const pageSize = 50;

// spans are the choices of a filter by time, in milliseconds.
const hour = 3600e3;
const spans = { '1 hour': hour, '24 hours': 24 * hour, '7 days': 7 * 24 * hour, '30 days': 30 * 24 * hour };

// pathOf returns the path of a page of a list: its own parameters, and those filters of the query that have a value.
export function pathOf(spec, query, now = Date.now()) {
  const [path, fixed] = spec.path.split('?');
  const all = new URLSearchParams(fixed);
  all.set(spec.size ?? 'limit', pageSize);
  for (const f of spec.filters ?? []) {
    const value = (query[f.name] ?? '').trim();
    if (f.kind === 'span') {
      if (spans[value]) all.set(f.name, new Date(now - spans[value]).toISOString());
    } else if (value) all.set(f.name, value);
  }
  if (query.after) all.set(spec.after ?? 'after', query.after);
  return path + '?' + all;
}

// ListView is a list as a view of its own. Its filters and its page are in the address.
export function ListView({ spec, tabs }) {
  const { view, args, query } = state.route;
  const to = (next) => go([view, ...args], next);
  return html`<section class="page wide">
    <header><h1>${spec.title}</h1>${spec.about && html`<p class="muted">${spec.about}</p>`}<span class="grow"></span>${tabs}</header>
    <${Rows} spec=${spec} query=${query} onQuery=${to} />
  </section>`;
}

// Rows is a list with its filters. onQuery is told what the filters are now; without it they are kept here, as those of a list within a page.
// A list whose spec has the rows asks for nothing.
export function Rows({ spec, query, onQuery }) {
  if (!spec.rows) return html`<${LoadedRows} spec=${spec} query=${query} onQuery=${onQuery} />`;
  if (spec.rows.length === 0) return html`<p class="muted empty">${spec.empty}</p>`;
  return html`<${Table} columns=${spec.columns} rows=${spec.rows} label=${spec.title} open=${spec.open} inside=${spec.inside} />`;
}

function LoadedRows({ spec, query, onQuery }) {
  const [own, setOwn] = useState({});
  const now = onQuery ? query : own;
  const to = onQuery ?? setOwn;
  const path = useMemo(() => pathOf(spec, now), [spec.path, JSON.stringify(now)]);
  const page = useLoad(path, now.after ? 0 : spec.every ?? 0);
  const rows = page.data?.[spec.field];
  const next = page.data?.next || page.data?.next_page_token;
  const filtered = (spec.filters ?? []).some((f) => now[f.name]);
  return html`
    ${spec.filters && html`<${Filters} filters=${spec.filters} query=${now} onQuery=${to} />`}
    ${page.error && html`<p class="error" role="alert">${page.error} <button onClick=${page.again}>Try again</button></p>`}
    ${!page.data && !page.error && html`<p class="working">Loading…</p>`}
    ${rows?.length === 0 && html`<p class="muted empty">${next ? 'Nothing on this page; the next one may have more.' : filtered || now.after ? 'Nothing matches.' : spec.empty ?? 'Nothing is here.'}</p>`}
    ${rows?.length > 0 && html`<${Table} columns=${spec.columns} rows=${rows} label=${spec.title} open=${spec.open} inside=${spec.inside} />`}
    ${(next || now.after) && html`<p class="pager">
      ${now.after && html`<button onClick=${() => to({ ...now, after: undefined })}>First page</button>`}
      ${next && html`<button onClick=${() => to({ ...now, after: String(next) })}>Next page</button>`}</p>`}`;
}

function Filters({ filters, query, onQuery }) {
  const apply = (form) => {
    const given = Object.fromEntries(new FormData(form));
    onQuery({ ...query, ...given, after: undefined });
  };
  return html`<form class="filters" role="search" onSubmit=${(e) => { e.preventDefault(); apply(e.currentTarget); }} onChange=${(e) => apply(e.currentTarget)}>
    ${filters.map((f) => html`<label key=${f.name}>${f.label}${f.kind === 'span' || f.choices
      ? html`<select name=${f.name} value=${query[f.name] ?? ''}><option value="">any</option>${(f.choices ?? Object.keys(spans)).map((c) => html`<option key=${c} value=${c}>${c}</option>`)}</select>`
      : html`<input name=${f.name} type=${f.name === 'text' ? 'search' : 'text'} value=${query[f.name] ?? ''} placeholder=${f.hint ?? ''} maxlength="200" autocomplete="off" />`}</label>`)}
    <button class="hidden" tabindex="-1">Search</button>
  </form>`;
}

// Table shows rows. The first column that is a link leads to what the row is about; a list whose rows have no page shows what is inside them, else as JSON.
export function Table({ columns, rows, label, open, inside = (row) => html`<${Json} value=${row} />` }) {
  const cell = (c, row) => {
    const value = c.cell(row);
    if (!c.link || !value) return value;
    const to = open?.(row);
    if (to) return html`<a class="rowlink" href=${to}>${value}</a>`;
    return html`<button class="quiet rowlink" onClick=${() => show({ title: label, body: inside(row) })}>${value}</button>`;
  };
  return html`<div class="table" tabindex="0" role="region" aria-label=${label}><table class="grid rows" role="table">
    <thead role="rowgroup"><tr role="row">${columns.map((c) => html`<th key=${c.name} role="columnheader" class=${c.class ?? ''}>${c.name}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((row, i) => html`<tr key=${i} role="row">${columns.map((c) => {
      const value = cell(c, row);
      return html`<td key=${c.name} role="cell" data-label=${c.name} class=${(c.class ?? '') + (value ? '' : ' none')}>${value}</td>`;
    })}</tr>`)}</tbody></table></div>`;
}

// DetailView is the page of one thing: what the API says of it, with what belongs to it below.
export function DetailView({ spec, name }) {
  const page = useLoad(spec.path(name, state.route.query), spec.every ?? 0);
  return html`<section class="page wide">
    <header><p class="crumb"><a href=${link(spec.view)}>${spec.back}</a></p><h1 class="wrap">${name}</h1></header>
    ${page.error && html`<p class="error" role="alert">${page.status === 404 ? `No ${spec.one} ${name}` : page.error} <button onClick=${page.again}>Try again</button></p>`}
    ${!page.data && !page.error && html`<p class="working">Loading…</p>`}
    ${page.data && spec.show(page.data, name)}
  </section>`;
}

// Facts are names with values, in a grid; those without a value are left out.
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// Status is a state in a word, with a dot of its colour.
export function Status({ of }) {
  return html`<span class=${'status ' + of}><span class="dot" aria-hidden="true"></span> ${of}</span>`;
}
