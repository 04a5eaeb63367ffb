// Everything of the tenant that waits for a person.
import { html, useEffect, useState } from './html.js';
import { call, words } from './api.js';
import { state, link } from './store.js';
import { poll } from './load.js';
import { countPending } from './boot.js';
import { ApprovalCard } from './approval.js';
import { ago } from './format.js';

export function Approvals() {
  const [which, setWhich] = useState('pending');
  const [page, setPage] = useState(null);
  const [error, setError] = useState('');
  const [attempt, again] = useState(0);
  useEffect(() => {
    document.title = 'Approvals · Turnstone';
    const control = new AbortController();
    const load = () =>
      call('v1/approvals?page_size=100&state=' + which, { signal: control.signal }).then(
        (p) => {
          setPage(p);
          setError('');
        },
        (err) => control.signal.aborted || setError(words(err)),
      );
    setPage(null);
    load();
    const stop = poll(load, 10000);
    return () => {
      stop();
      control.abort();
    };
  }, [which, attempt, state.principal, state.comebacks]);
  const decided = (a) => {
    setPage((p) => ({ ...p, approvals: p.approvals.map((x) => (x.approval_id === a.approval_id ? a : x)) }));
    countPending();
  };
  return html`<section class="page">
    <header><h1>Approvals</h1><span class="grow"></span><${Tabs} all=${['pending', 'decided']} at=${which} onPick=${setWhich} /></header>
    ${error && html`<p class="error" role="alert">${error} <button onClick=${() => again(attempt + 1)}>Try again</button></p>`}
    ${!page && !error && html`<p class="working">Loading…</p>`}
    ${page && page.approvals.length === 0 && html`<p class="muted empty">${which === 'pending' ? 'Nothing waits for a decision.' : 'Nothing was decided yet.'}</p>`}
    ${page?.approvals.map((a) => html`<div class="entry" key=${a.approval_id}>
      <p class="muted"><a href=${link('chat', a.session_id, a.turn_id)}>${a.agent || 'agent'} in ${a.session_id}</a> ${a.created_at && html`· ${ago(Date.parse(a.created_at))}`}</p>
      <${ApprovalCard} approval=${a} onDecided=${decided} /></div>`)}
    ${page?.next_page_token && html`<p class="muted">There are more; these are the oldest hundred.</p>`}
  </section>`;
}

export function Tabs({ all, at, onPick }) {
  function key(e) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const next = (all.indexOf(at) + step + all.length) % all.length;
    onPick(all[next]);
    e.currentTarget.children[next].focus();
  }
  return html`<div class="tabs" role="tablist" onKeyDown=${key}>${all.map((t) => html`<button key=${t} role="tab" aria-selected=${t === at ? 'true' : 'false'} tabindex=${t === at ? 0 : -1} onClick=${() => onPick(t)}>${t}</button>`)}</div>`;
}
