// Where a message is written.
import { html, useState, useRef, useEffect, useLayoutEffect } from './html.js';
import { state } from './store.js';
import { Icon } from './icons.js';

const drafts = new Map(); // by session, for as long as the page lives

export function Composer({ session, onSend }) {
  const area = useRef();
  const [text, setText] = useState(() => drafts.get(session.id) ?? '');
  const [onBusy, setOnBusy] = useState('queue');
  const running = session.running();

  useEffect(() => area.current.focus({ preventScroll: true }), [session.id]);
  useLayoutEffect(() => {
    const e = area.current;
    e.style.height = 'auto';
    e.style.height = Math.min(e.scrollHeight + 2, window.innerHeight * 0.4) + 'px';
  }, [text]);

  function write(value) {
    setText(value);
    if (value) drafts.set(session.id, value);
    else drafts.delete(session.id);
  }

  function send() {
    if (!text.trim()) return;
    onSend(text, { onBusy });
    write('');
  }

  function key(e) {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
      e.preventDefault();
      send();
    }
  }

  return html`<form class="composer" onSubmit=${(e) => { e.preventDefault(); send(); }}>
    <div class="box">
      <textarea ref=${area} id="message" aria-label="Message" rows="1" placeholder=${running ? 'Say something while it runs…' : 'Ask something…'}
        value=${text} onInput=${(e) => write(e.currentTarget.value)} onKeyDown=${key}></textarea>
      <div class="row">
        ${!running && html`<${Pick} session=${session} />`}
        <span class="grow"></span>
        ${running && html`<select class="small" aria-label="What a message does while a turn runs" value=${onBusy} onChange=${(e) => setOnBusy(e.currentTarget.value)}>
          <option value="queue">after this turn</option><option value="interrupt">interrupt it</option></select>`}
        ${running && html`<button type="button" class="round" title="Stop (Esc)" aria-label="Stop" disabled=${running.stopping} onClick=${() => session.stop()}><${Icon} name="stop" /></button>`}
        <button class="round primary" title="Send (Enter)" aria-label="Send" disabled=${!text.trim()}><${Icon} name="send" /></button>
      </div>
    </div>
  </form>`;
}

// Pick chooses agent and model for what is sent next.
function Pick({ session }) {
  const [, draw] = useState(0);
  const agents = state.agents ?? [];
  const agent = agents.find((a) => a.name === session.agent) ?? agents.find((a) => a.default);
  const models = session.agent ? agent?.models ?? [] : [];
  const set = (field, value) => {
    session[field] = value;
    if (field === 'agent') session.model = '';
    draw((n) => n + 1);
  };
  return html`
    <select class="small" aria-label="Agent" value=${session.agent} onChange=${(e) => set('agent', e.currentTarget.value)}>
      <option value="">by the routes</option>
      ${agents.map((a) => html`<option key=${a.name} value=${a.name} disabled=${Boolean(a.fault)}>${a.name}</option>`)}
    </select>
    ${models.length > 1 && html`<select class="small" aria-label="Model" value=${session.model} onChange=${(e) => set('model', e.currentTarget.value)}>
      ${models.map((m, i) => html`<option key=${m} value=${i === 0 ? '' : m}>${m}</option>`)}
    </select>`}`;
}
