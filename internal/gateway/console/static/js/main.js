// The page as a whole.
import { html, render, useEffect, useRef } from './html.js';
import { state, useStore, readRoute, changed, show } from './store.js';
import { Sidebar } from './sidebar.js';
import { Chat, newConversation } from './chat.js';
import { Approvals } from './approvals.js';
import { Routes } from './routes.js';
import { Catalog } from './catalog.js';
import { Usage } from './usage.js';
import { Turns, Audit, Workflows, Runs, Schedules, Knowledge } from './views.js';
import { AskCredential } from './account.js';
import { Icon } from './icons.js';
import { start, keepLooking } from './boot.js';
import { session } from './session.js';
import { applyTheme } from './theme.js';

const views = {
  chat: Chat, turns: Turns, approvals: Approvals, usage: Usage, workflows: Workflows, runs: Runs, schedules: Schedules, knowledge: Knowledge, audit: Audit,
  routes: Routes, catalog: Catalog,
};

function App() {
  useStore();
  if (state.asking !== null) return html`<${AskCredential} />`;
  const { view, args } = state.route;
  const View = views[view];
  return html`<div class="app">
    <a class="skip" href="#message" onClick=${(e) => { e.preventDefault(); document.getElementById('message')?.focus(); }}>To the message</a>
    <${Sidebar} />
    ${state.drawer && html`<div class="shade" onClick=${() => { state.drawer = false; changed(); }}></div>`}
    <main>
      <header class="top only-narrow">
        <button class="quiet" aria-label="Menu" aria-expanded=${state.drawer ? 'true' : 'false'} onClick=${() => { state.drawer = true; changed(); }}><${Icon} name="menu" />${state.pendingCount > 0 && html`<span class="badge">${state.pendingCount}</span>`}</button>
        <b class="grow">${view === 'chat' ? (args[0] ? session(args[0]).title() : 'New conversation') : view[0].toUpperCase() + view.slice(1)}</b>
        <button class="quiet" aria-label="New conversation" onClick=${newConversation}><${Icon} name="plus" /></button>
      </header>
      ${state.principal ? html`<${View} />` : html`<p class="working center">${state.agentsError || 'Loading…'}</p>`}
    </main>
    ${state.dialog && html`<${Dialog} dialog=${state.dialog} />`}
    <div class="hidden" role="status" aria-live="assertive">${state.announcement}</div>
  </div>`;
}

function Dialog({ dialog }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} aria-label=${dialog.title} onClose=${() => show(null)} onClick=${(e) => e.target === ref.current && show(null)}>
    <header><h2>${dialog.title}</h2><button class="quiet" aria-label="Close" onClick=${() => show(null)}><${Icon} name="close" /></button></header>
    <div class="body">${dialog.body}</div>
  </dialog>`;
}

function keys(e) {
  const command = e.ctrlKey || e.metaKey;
  if (command && !e.altKey && !e.shiftKey && e.key.toLowerCase() === 'k') {
    e.preventDefault();
    const message = document.getElementById('message');
    if (message) message.focus();
    else newConversation();
  } else if (command && !e.altKey && !e.shiftKey && e.key.toLowerCase() === 'j') {
    e.preventDefault();
    newConversation();
  } else if (e.key === 'Escape' && !e.defaultPrevented && !e.isComposing) {
    if (state.dialog) return; // the dialog closes itself
    if (state.drawer) {
      state.drawer = false;
      changed();
    } else if (state.route.view === 'chat' && state.route.args[0]) {
      session(state.route.args[0]).stop();
    }
  }
}

applyTheme();
addEventListener('hashchange', readRoute);
addEventListener('keydown', keys);
readRoute();
keepLooking();
render(html`<${App} />`, document.getElementById('app'));
start();
