// The chat: a conversation, and where the next message is written.
import { html, useEffect, useRef, useState, useMemo } from './html.js';
import { state, go, replace } from './store.js';
import { session } from './session.js';
import { newId } from './api.js';
import { TurnView } from './turnview.js';
import { Composer } from './composer.js';
import { Icon } from './icons.js';

export function Chat() {
  const [id, turn] = state.route.args;
  const { agent = '' } = state.route.query; // whom a new conversation is with
  const fresh = useMemo(() => (id ? '' : newId()), [id]);
  const s = session(id || fresh);
  useMemo(() => {
    if (!id) s.agent = agent;
  }, [fresh, agent]);
  useEffect(() => {
    if (id) s.open(turn);
  }, [id]);
  useEffect(() => {
    document.title = s.title() + ' · Turnstone';
  });
  return html`<section class="chat" key=${s.id}>
    ${s.turns.length > 0 || s.loading || s.error ? html`<${Log} session=${s} />` : html`<${Welcome} session=${s} />`}
    <${Composer} key=${s.id} session=${s} onSend=${(text, how) => s.send(text, how)} />
  </section>`;
}

function Log({ session: s }) {
  const box = useRef();
  const inner = useRef();
  const stuck = useRef(true);
  const [away, setAway] = useState(false);
  const down = () => {
    stuck.current = true;
    setAway(false);
    box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(() => {
    const e = box.current;
    // Whoever reads further up stays there; whoever is at the end stays at the end.
    const grown = new ResizeObserver(() => {
      if (stuck.current) e.scrollTop = e.scrollHeight;
    });
    grown.observe(inner.current);
    grown.observe(e);
    return () => grown.disconnect();
  }, []);
  useEffect(down, [s.turns.length]);
  const scrolled = () => {
    const e = box.current;
    stuck.current = e.scrollHeight - e.scrollTop - e.clientHeight < 60;
    setAway(!stuck.current);
  };
  return html`<div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Conversation">
    <div class="inner" ref=${inner}>
      ${s.loading && s.turns.length === 0 && html`<p class="working">Loading the conversation…</p>`}
      ${s.error && html`<p class="card broken" role="alert">${s.error} <button onClick=${() => s.open(state.route.args[1])}>Try again</button></p>`}
      ${s.turns.map((t) => html`<${TurnView} key=${t.id} turn=${t} session=${s} ui=${state.config.ui_url} />`)}
    </div>
    ${away && html`<button class="tolast" onClick=${down}><${Icon} name="down" /> Latest</button>`}
  </div>`;
}

function Welcome({ session: s }) {
  const agents = state.agents ?? [];
  const [chosen, choose] = useState(s.agent);
  return html`<div class="log"><div class="inner welcome">
    <h1>What should be done?</h1>
    <p class="muted">Each message is a durable turn: it goes on when this page is closed, and is found again when it is opened.</p>
    ${state.agentsError && html`<p class="error" role="alert">${state.agentsError}</p>`}
    ${agents.length > 0 && html`<ul class="agents" aria-label="Agents">${agents.slice(0, 12).map((a) => html`<li key=${a.name}><button disabled=${Boolean(a.fault)} aria-pressed=${chosen === a.name ? 'true' : 'false'}
      onClick=${() => { s.agent = chosen === a.name ? '' : a.name; s.model = ''; choose(s.agent); document.getElementById('message')?.focus(); }}>
      <b>${a.name}</b>${a.default && html`<small>default</small>`}<span>${a.fault || a.description}</span></button></li>`)}</ul>`}
    <${OpenById} />
  </div></div>`;
}

function OpenById() {
  const [id, setId] = useState('');
  const valid = /^[A-Za-z0-9._-]{1,128}$/.test(id.trim());
  return html`<form class="openid" onSubmit=${(e) => { e.preventDefault(); if (valid) go('chat', id.trim()); }}>
    <input aria-label="Session id" placeholder="Open a session by its id" value=${id} onInput=${(e) => setId(e.currentTarget.value)} aria-invalid=${id && !valid ? 'true' : 'false'} />
    <button disabled=${!valid}>Open</button>
  </form>`;
}

export function newConversation() {
  if (state.route.view === 'chat' && !state.route.args[0]) {
    replace('chat');
    document.getElementById('message')?.focus();
  } else go('chat');
}
