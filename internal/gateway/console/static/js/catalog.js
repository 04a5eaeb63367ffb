// What there is: agents, models, tools, and the documents that they are made of, each with the way to its editor.
import { html, useEffect, useState } from './html.js';
import { call, segment, words } from './api.js';
import { state, link, go } from './store.js';
import { Tabs } from './approvals.js';
import { Code, Json } from './json.js';
import { yaml } from './yaml.js';
import { moment } from './format.js';
import { may } from './rights.js';
import { draftOf, editLink, idOf, textOf } from './documents.js';
import { Editor } from './editor.js';

const tabs = ['agents', 'models', 'tools', 'documents'];
const mostPages = 10;

export function Catalog() {
  const [asked, kind, name] = state.route.args;
  return asked === 'edit' ? html`<${Editor} kind=${kind} name=${name} />` : html`<${Listing} asked=${asked} name=${kind} />`;
}

function Listing({ asked, name }) {
  const tab = tabs.includes(asked) ? asked : 'agents';
  const [loaded, setLoaded] = useState(null);
  const [error, setError] = useState('');
  const [filter, setFilter] = useState('');
  const [attempt, again] = useState(0);
  useEffect(() => {
    document.title = 'Catalog · Turnstone';
    const control = new AbortController();
    setLoaded(null);
    setError('');
    load(tab, control.signal).then((items) => setLoaded({ tab, items }), (err) => control.signal.aborted || setError(words(err)));
    return () => control.abort();
  }, [tab, attempt, state.principal]);
  const list = loaded?.tab === tab ? loaded.items : null; // not that of the tab before
  const shown = (list ?? []).filter((x) => (x.key + ' ' + x.about).toLowerCase().includes(filter.toLowerCase()));
  const chosen = list?.find((x) => x.key === name);
  return html`<section class="page catalog">
    <header><h1>Catalog</h1><span class="grow"></span>${may('catalog.write') && html`<a class="button" href=${link('catalog', 'edit')}>${draftOf(idOf({})) ? 'Go on with the new document' : 'New document'}</a>`}<${Tabs} all=${tabs} at=${tab} onPick=${(t) => go('catalog', t)} /></header>
    ${error && html`<p class="error" role="alert">${error} <button onClick=${() => again(attempt + 1)}>Try again</button></p>`}
    ${!list && !error && html`<p class="working">Loading…</p>`}
    ${list && html`<div class=${'split' + (chosen ? ' chosen' : '')}>
      <div class="listing">
        <input type="search" aria-label="Filter" placeholder=${'Filter ' + list.length + ' ' + tab} value=${filter} onInput=${(e) => setFilter(e.currentTarget.value)} />
        <ul onKeyDown=${arrows}>${shown.slice(0, 1000).map((x) => html`<li key=${x.key}><a href=${link('catalog', tab, x.key)} aria-current=${x.key === name ? 'true' : undefined}><b>${x.title}</b> <small class="muted">${x.side}</small><span>${x.about}</span></a></li>`)}</ul>
        ${shown.length === 0 && html`<p class="muted empty">Nothing is here.</p>`}
      </div>
      ${chosen && html`<div class="detail"><p class="only-narrow"><a href=${link('catalog', tab)}>← ${tab[0].toUpperCase() + tab.slice(1)}</a></p><h2>${chosen.title} <${Edit} of=${chosen.of} /></h2>${chosen.view()}</div>`}
    </div>`}
  </section>`;
}

// Edit leads to the editor of a document, for those who may read it there.
function Edit({ of }) {
  const resource = of.kind + '/' + of.name;
  if (!may('catalog.read', resource)) return null;
  return html`<a class="edit" href=${editLink(of)}>${draftOf(idOf(of)) ? 'Go on with the edit' : may('catalog.write', resource) ? 'Edit' : 'Document'}</a>`;
}

function arrows(e) {
  const all = [...e.currentTarget.querySelectorAll('a')];
  const to = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  const next = all[all.indexOf(document.activeElement) + to];
  if (to && next) {
    e.preventDefault();
    next.focus();
  }
}

async function pages(path, field, signal) {
  const all = [];
  let token = '';
  for (let i = 0; i < mostPages; i++) {
    const p = await call(path + (path.includes('?') ? '&' : '?') + 'page_size=500' + (token && '&page_token=' + segment(token)), { signal });
    all.push(...p[field]);
    token = p.next_page_token ?? p.next ?? '';
    if (!token) break;
  }
  return all;
}

// Shared documents are listed for credentials of every tenant alone.
const everyTenant = () => (state.principal?.tenant === '*' ? '&tenant=*' : '');

async function load(tab, signal) {
  switch (tab) {
    case 'agents':
      return (await pages('v1/agents', 'agents', signal)).map((a) => ({
        key: a.name, title: a.name, side: a.default ? 'default' : a.tenant === '*' ? 'shared' : a.tenant, about: a.fault || a.description, of: { kind: 'AgentInstance', name: a.name, tenant: a.tenant || 'default' }, view: () => html`<${Agent} a=${a} />`,
      }));
    case 'tools':
      return (await pages('v1/catalog/nodes', 'nodes', signal)).filter((n) => n.type !== 'agent').map((n) => ({
        key: n.node_id + '@' + n.version, title: n.node_id, side: n.type + ' ' + n.version, about: n.description, of: { kind: 'NodeDefinition', name: n.node_id, version: n.version }, view: () => html`<${Node} n=${n} />`,
      }));
    case 'models':
      return (await pages('v1/catalog/documents?kind=ModelProfile' + everyTenant(), 'documents', signal)).map(document);
    default:
      return (await pages('v1/catalog/documents?' + everyTenant().slice(1), 'documents', signal)).map(document);
  }
}

function document(d) {
  const key = [d.kind, d.tenant, d.name, d.version].filter(Boolean).join(' ');
  return {
    key, title: d.name, side: [d.kind, d.tenant === '*' ? 'shared' : d.tenant, d.version].filter(Boolean).join(' · '), about: d.body?.description ?? '', of: d,
    view: () => html`<p class="muted">${key} · from ${d.source}${d.revision > 0 && ` · revision ${d.revision}`}${d.updated_by && ` · by ${d.updated_by}, ${moment(d.updated_at)}`}</p><${Code} text=${textOf(d.body)} lang="yaml" />`,
  };
}

function Agent({ a }) {
  return html`<p>${a.description}</p>${a.fault && html`<p class="error" role="alert">${a.fault}</p>`}
    <dl class="facts">
      ${[['Instance', a.instance_id], ['Node', a.node_id + '@' + a.node_version], ['Models', a.models.join(', ')], ['Middleware', a.middleware.join(', ')], ['Capabilities', a.capabilities.join(', ')], ['Plan', a.plan_hash], ['Published', a.artifact ? moment(a.artifact.compiled_at) : 'no'], ['Source', a.source]].map(([k, v]) => v && html`<div key=${k}><dt>${k}</dt><dd class=${k === 'Plan' ? 'mono wrap' : 'wrap'}>${v}</dd></div>`)}
    </dl>
    <h4>Tools</h4><${Tools} tools=${a.tools} /><h4>Limits</h4>${Object.keys(a.limits ?? {}).length > 0 ? html`<${Code} text=${yaml(a.limits)} lang="yaml" />` : html`<p class="muted">the defaults</p>`}`;
}

function Tools({ tools }) {
  if (tools.length === 0) return html`<p class="muted">none</p>`;
  return tools.map((t) => html`<details class="fold" key=${t.name}><summary><b>${t.name}</b> <small class="muted">${[t.toolkit || t.source_node_name, t.inherently_safe ? 'safe' : t.approval && 'approval: ' + t.approval].filter(Boolean).join(' · ')}</small></summary><p>${t.description}</p><${Json} value=${t.parameters} /></details>`);
}

function Node({ n }) {
  return html`<p>${n.description}</p><h4>Tools</h4><${Tools} tools=${n.tools} /><h4>Properties</h4><${Json} value=${n.properties} />`;
}
