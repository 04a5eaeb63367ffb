// The side of the page: where to go, the conversations, who looks.
import { html } from './html.js';
import { state, link, changed, show } from './store.js';
import { SessionList } from './sessionlist.js';
import { newConversation } from './chat.js';
import { Icon } from './icons.js';
import { moment } from './format.js';
import { theme, nextTheme } from './theme.js';
import { Account } from './account.js';

const views = [
  ['chat', 'chat', 'Chat'], ['approvals', 'hand', 'Approvals'], ['turns', 'list', 'Turns'], ['usage', 'chart', 'Usage'], ['workflows', 'flow', 'Workflows'],
  ['schedules', 'clock', 'Schedules'], ['knowledge', 'file', 'Knowledge'], ['audit', 'eye', 'Audit'], ['routes', 'route', 'Routes'], ['catalog', 'book', 'Catalog'],
];

// shownIn is the entry that a view belongs to.
const shownIn = (view) => (view === 'runs' ? 'workflows' : view);

export function Sidebar() {
  const { view, args } = state.route;
  const shut = () => {
    state.drawer = false;
    changed();
  };
  return html`<aside class=${'side' + (state.drawer ? ' open' : '')} aria-label="Navigation">
    <div class="brand"><${Mark} /><b>Turnstone</b><span class="grow"></span>
      <button class="quiet only-narrow" aria-label="Close" onClick=${shut}><${Icon} name="close" /></button></div>
    <button class="new" onClick=${() => { shut(); newConversation(); }}><${Icon} name="plus" /> New conversation</button>
    <nav>${views.map(([name, icon, label]) => html`<a key=${name} href=${link(name)} aria-current=${shownIn(view) === name ? 'page' : undefined} onClick=${shut}>
      <${Icon} name=${icon} /> ${label} ${name === 'approvals' && state.pendingCount > 0 && html`<span class="badge" aria-label=${state.pendingCount + ' waiting'}>${state.pendingCount > 99 ? '99+' : state.pendingCount}</span>`}</a>`)}</nav>
    <${SessionList} current=${view === 'chat' ? args[0] : ''} onOpen=${shut} />
    <footer>
      <${Health} />
      <span class="grow"></span>
      <button class="quiet" title=${'Colours: ' + theme()} aria-label=${'Colours: ' + theme()} onClick=${nextTheme}><${Icon} name=${{ auto: 'auto', light: 'sun', dark: 'moon' }[theme()]} /></button>
      <button class="quiet" title="Credential and tenant" aria-label="Credential and tenant" onClick=${() => show({ title: 'You', body: html`<${Account} />` })}><${Icon} name="key" /></button>
    </footer>
  </aside>`;
}

function Mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M7 20.5c3.4 0 4.6-9 9-9s5.6 9 9 9" /><circle cx="16" cy="20.5" r="2.2" /></svg>`;
}

function Health() {
  const h = state.health;
  const status = state.reachable ? h?.status ?? '' : 'failing';
  return html`<button class=${'quiet health ' + status} title=${worst(h)?.hint} onClick=${() => show({ title: 'Health', body: html`<${Dependencies} />` })}>
    <span class="dot" aria-hidden="true"></span> ${state.reachable ? summary(h) : 'cannot be reached'}</button>`;
}

// worst is the dependency that says most about the whole, if one is not well.
const worst = (h) => h?.dependencies?.find((d) => d.state === 'down') ?? h?.dependencies?.find((d) => d.state === 'degraded');

export function summary(h) {
  if (!h) return 'not known';
  const d = worst(h);
  if (h.status === 'draining' || !d) return { ok: 'all is well', draining: 'the server is stopping' }[h.status] ?? h.status;
  const more = h.dependencies.filter((x) => x.state === d.state).length - 1;
  return d.name + (d.state === 'down' ? ' is down' : ' is degraded') + (more > 0 ? `, ${more} more` : '');
}

function Dependencies() {
  const h = state.health;
  return html`<p>${state.reachable ? summary(h) : 'The server cannot be reached.'} <span class="muted">${h?.version ?? ''}</span></p>
    ${h?.dependencies && html`<table class="grid"><thead><tr><th>needs</th><th>state</th><th>took</th></tr></thead><tbody>${h.dependencies.map((d) => html`<tr key=${d.name} class=${d.state}>
      <td><span class=${'dot ' + d.state} aria-hidden="true"></span> ${d.name}</td>
      <td class="wrap">${d.state === 'ok' ? 'ok' : html`<b>${d.state}</b>${d.since && html` <span class="muted">since ${moment(d.since)}</span>`}`} ${d.detail}${d.hint && html`<p class="hint">${d.hint}</p>`}</td>
      <td class="num">${d.took_ms ? d.took_ms + ' ms' : ''}</td></tr>`)}</tbody></table>`}`;
}
