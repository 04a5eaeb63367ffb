// Who looks: asking for a credential, and saying whose it is.
import { html, useState, useRef, useEffect } from './html.js';
import { state, changed, show } from './store.js';
import { credential, tenant } from './api.js';
import { restart } from './boot.js';

export function AskCredential() {
  const [value, setValue] = useState('');
  const [keep, setKeep] = useState(false);
  const input = useRef();
  useEffect(() => input.current.focus(), []);
  function give(e) {
    e.preventDefault();
    const key = value.trim().replace(/^Bearer\s+/i, '');
    // A header takes no other characters, and a credential has none.
    if (!/^[\x21-\x7e]+$/.test(key)) return;
    credential.set(key, keep);
    state.asking = null;
    changed();
    credential.given();
    restart();
  }
  return html`<div class="gate"><form class="card" onSubmit=${give}>
    <h1>Turnstone</h1>
    <p>This server wants to know who you are.</p>
    <label>API key or token<input ref=${input} type="password" name="credential" autocomplete="off" spellcheck="false" value=${value} onInput=${(e) => setValue(e.currentTarget.value)} /></label>
    ${state.asking && html`<p class="error" role="alert">${state.asking}</p>`}
    <label class="check"><input type="checkbox" checked=${keep} onChange=${(e) => setKeep(e.currentTarget.checked)} /> Keep it in this browser, also when it is closed</label>
    <div class="buttons"><button class="primary" disabled=${!value.trim()}>Continue</button></div>
    <p class="muted">It stays in this browser and is sent to this server alone.</p>
  </form></div>`;
}

export function Account() {
  const p = state.principal;
  const [name, setName] = useState(tenant.get());
  const any = p?.tenant === '*';
  return html`
    ${p && html`<dl class="facts">
      <div><dt>Known by</dt><dd>${p.method === 'none' ? 'nothing: this server asks nobody' : p.method}</dd></div>
      ${p.subject && html`<div><dt>User</dt><dd>${p.subject}</dd></div>`}
      <div><dt>Tenant</dt><dd>${any ? 'every one' : p.tenant}</dd></div>
      ${p.role && html`<div><dt>Role</dt><dd>${p.role}</dd></div>`}
      <div><dt>May</dt><dd class="wrap mono">${(p.scopes ?? []).join(' ')}</dd></div>
    </dl>`}
    ${any && html`<form class="openid" onSubmit=${(e) => { e.preventDefault(); tenant.set(name.trim()); show(null); restart(); }}>
      <input aria-label="Tenant" placeholder="Tenant (default)" value=${name} onInput=${(e) => setName(e.currentTarget.value)} pattern="[A-Za-z0-9._-]{0,128}" /><button>Use</button></form>`}
    ${credential.get() && html`<p class="buttons"><button onClick=${() => { credential.forget(); show(null); restart(); }}>Forget the credential</button></p>`}
    <h4>Keys</h4>
    <table class="grid"><tbody>${[['Enter', 'send'], ['Shift Enter', 'new line'], ['Ctrl K', 'write a message'], ['Ctrl J', 'new conversation'], ['Esc', 'close, or stop the turn'], ['↑ ↓ F2', 'in the list of conversations: move, rename']].map(([k, v]) => html`<tr key=${k}><td><kbd>${k}</kbd></td><td>${v}</td></tr>`)}</tbody></table>`;
}
