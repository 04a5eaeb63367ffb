// The conversations of the installation, the newest first: search, filters, pages, and titles.
import { html, on, useEffect, useRef, useState } from './html.js';
import { state, link } from './store.js';
import { useLoad } from './load.js';
import { words } from './api.js';
import { may } from './rights.js';
import { conversation, conversations, givenTitle, noteTitles, rename, titleOf } from './conversations.js';
import { session } from './session.js';
import { Icon } from './icons.js';
import { ago, visible } from './format.js';

const pageSize = 50;
const statuses = ['running', 'waiting', 'completed', 'failed', 'cancelled'];
const typing = 300; // milliseconds without a key after which the server is asked

// pathOf returns the path of a page of conversations.
function pathOf({ text, agent, status, after }) {
  const all = new URLSearchParams({ limit: pageSize });
  for (const [name, value] of Object.entries({ text: text.trim(), agent, status, after })) if (value) all.set(name, value);
  return 'v1/sessions?' + all;
}

// rowsOf makes the rows of a page of sessions.
const rowsOf = (page) => (page?.sessions ?? []).map((s) => ({
  id: s.session_id, turn: s.last_turn_id, title: s.title, summary: s.summary, status: s.status, agent: s.agent, from: s.forked_from, at: Date.parse(s.last_active_at),
}));

// nameOf is what a conversation is called: its title, else the beginning of its first message.
const nameOf = (row) => (givenTitle(row.id) ?? row.title) || titleOf(row.summary ?? '');
const shownName = (row) => visible(nameOf(row)) || row.id;

const localRow = (c) => ({ id: c.id, turn: c.turn, summary: c.first ?? c.said, status: '', at: c.at });

// useSessions returns the rows of a page, and more of what was loaded. Who may not list sessions has those that this browser began.
function useSessions(filter) {
  const page = useLoad(state.principal ? pathOf(filter) : '', filter.after ? 0 : 20000);
  useEffect(() => on(document, 'turnstone:sessions', page.again), []);
  const [last, keep] = useState(null); // what is shown while the next answer is on its way
  useEffect(() => {
    if (!page.data) return;
    keep(page.data);
    noteTitles(page.data.sessions);
  }, [page.data]);
  if (page.status === 403) return { ...page, rows: conversations().map(localRow), error: '', alone: true };
  return { ...page, data: page.data ?? last, rows: rowsOf(page.data ?? last) };
}

export function SessionList({ current, onOpen }) {
  const [filter, setFilter] = useState({ text: '', agent: '', status: '', after: '' });
  const list = useSessions(filter);
  const filtered = filter.text || filter.agent || filter.status;
  const rows = withCurrent(list.rows, current, filtered || filter.after);
  const change = (fields) => setFilter((f) => ({ ...f, after: '', ...fields }));
  return html`<section class="sessions" aria-label="Conversations of this server">
    ${!list.alone && html`<${Search} filter=${filter} onChange=${change} />`}
    ${list.error && html`<p class="empty error" role="alert">${list.error}</p>`}
    ${rows.length > 0 ? html`<${Entries} rows=${rows} current=${current} onOpen=${onOpen} />`
      : !list.error && html`<p class="empty muted">${!list.data && !list.alone ? 'Loading…' : filtered ? 'Nothing matches.' : 'Conversations will be listed here.'}</p>`}
    ${(list.data?.next || filter.after) && html`<p class="pager">
      ${filter.after && html`<button class="quiet" onClick=${() => change({})}>Newest</button>`}
      ${list.data?.next && html`<button class="quiet" onClick=${() => change({ after: list.data.next })}>Older</button>`}</p>`}
  </section>`;
}

// withCurrent puts the conversation that is shown on top if the server does not list it yet.
function withCurrent(rows, current, elsewhere) {
  if (elsewhere || !current || rows.some((r) => r.id === current)) return rows;
  const known = conversation(current);
  return known && session(current).turns.length > 0 ? [localRow(known), ...rows] : rows;
}

function Search({ filter, onChange }) {
  const timer = useRef(0);
  const [text, setText] = useState(filter.text);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange({ text: value }), typing);
  };
  return html`<div class="search">
    <input type="search" aria-label="Search conversations" placeholder="Search conversations" maxlength="200" value=${text} onInput=${(e) => type(e.currentTarget.value)} />
    <select class="small" aria-label="Agent of the conversations" value=${filter.agent} onChange=${(e) => onChange({ agent: e.currentTarget.value })}>
      <option value="">any agent</option>${(state.agents ?? []).map((a) => html`<option key=${a.name} value=${a.name}>${a.name}</option>`)}</select>
    <select class="small" aria-label="Status of the conversations" value=${filter.status} onChange=${(e) => onChange({ status: e.currentTarget.value })}>
      <option value="">any status</option>${statuses.map((s) => html`<option key=${s} value=${s}>${s}</option>`)}</select>
  </div>`;
}

function Entries({ rows, current, onOpen }) {
  const [renaming, setRenaming] = useState('');
  const renames = may('sessions.read') && may('turns.run');
  const box = useRef();
  function key(e) {
    const all = [...box.current.querySelectorAll('a')];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
    if (at < 0) return;
    if (to !== undefined && all[to]) {
      e.preventDefault();
      all[to].focus();
    } else if (e.key === 'F2' && renames) {
      setRenaming(rows[at].id);
    }
  }
  const done = (id) => {
    setRenaming('');
    requestAnimationFrame(() => box.current?.querySelector(`[data-session="${CSS.escape(id)}"] a`)?.focus());
  };
  return html`<ul class="conversations" ref=${box} onKeyDown=${key} aria-label="Conversations">${rows.map((r) => html`<li key=${r.id} data-session=${r.id}>
    ${renaming === r.id ? html`<${Rename} row=${r} onDone=${() => done(r.id)} />` : html`
      <a href=${link('chat', r.id, r.turn)} aria-current=${r.id === current ? 'page' : undefined} onClick=${onOpen} title=${[shownName(r), r.agent, r.status].filter(Boolean).join(' · ')}>
        ${['running', 'failed'].includes(r.status) && html`<span class=${'status ' + r.status}><span class="dot" aria-hidden="true"></span><span class="hidden">${r.status}</span></span>`}
        ${r.from && html`<span class="branch" title=${'a copy of ' + r.from}><${Icon} name="fork" /></span>`}<span class="title">${shownName(r)}</span><time>${ago(r.at)}</time></a>
      ${renames && html`<button class="quiet" aria-label=${'Rename: ' + shownName(r)} title="Rename (F2)" onClick=${() => setRenaming(r.id)}><${Icon} name="pencil" /></button>`}`}</li>`)}</ul>`;
}

function Rename({ row, onDone }) {
  const input = useRef();
  const [error, setError] = useState('');
  useEffect(() => input.current.select(), []);
  const give = async (e) => {
    e.preventDefault();
    try {
      if (input.current.value !== nameOf(row)) await rename(row.id, input.current.value);
      onDone();
    } catch (err) {
      setError(words(err));
    }
  };
  const key = (e) => {
    if (e.key === 'Escape') onDone();
    if (['Escape', 'ArrowUp', 'ArrowDown', 'Home', 'End'].includes(e.key)) e.stopPropagation();
  };
  return html`<form class="grow" onSubmit=${give} onKeyDown=${key}><input ref=${input} aria-label="Title" maxlength="200" defaultValue=${nameOf(row)} onBlur=${onDone} />${error && html`<span class="error" role="alert">${error}</span>`}</form>`;
}
