// Which agent would answer, and why: the dry run of the routes.
import { html, useEffect, useState } from './html.js';
import { post, words } from './api.js';
import { state } from './store.js';

const texts = [['ui_page', 'Page', '/reports/sales'], ['user_role', 'Role', 'clerk'], ['user_id', 'User', ''], ['channel', 'Channel', 'http'], ['session_id', 'Session', '']];
const objects = [['flags', 'Flags, JSON', '{"beta": true}'], ['metadata', 'Metadata, JSON', '{"plan": "gold"}']];

// requestOf makes the request of what was typed; its error names the field.
export function requestOf(form) {
  const context = {};
  const body = {};
  for (const [name] of texts) {
    const value = (form[name] ?? '').trim();
    if (!value) continue;
    if (name === 'channel' || name === 'session_id') body[name] = value;
    else context[name] = value;
  }
  for (const [name] of objects) {
    const value = (form[name] ?? '').trim();
    if (!value) continue;
    try {
      context[name] = JSON.parse(value);
    } catch (err) {
      throw new Error(name + ': no JSON: ' + err.message);
    }
    if (context[name] === null || typeof context[name] !== 'object' || Array.isArray(context[name])) throw new Error(name + ': is a JSON object: {…}');
  }
  if (form.agent) body.agent = form.agent;
  return Object.keys(context).length > 0 ? { ...body, context } : body;
}

export function Routes() {
  const [form, setForm] = useState({});
  const [decision, setDecision] = useState(null);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Routes · Turnstone';
  }, []);
  const field = (name) => (e) => setForm({ ...form, [name]: e.currentTarget.value });
  async function ask(e) {
    e.preventDefault();
    setBusy(true);
    setError('');
    try {
      setDecision(await post('v1/routes/dry-run', requestOf(form)));
    } catch (err) {
      setDecision(null);
      setError(words(err));
    }
    setBusy(false);
  }
  return html`<section class="page">
    <header><h1>Routes</h1><p class="muted">Which agent would answer, and why. Nothing is started.</p></header>
    <form class="fields" onSubmit=${ask}>
      ${texts.map(([name, label, hint]) => html`<label key=${name}>${label}<input name=${name} placeholder=${hint} value=${form[name] ?? ''} onInput=${field(name)} /></label>`)}
      <label>Named agent<select name="agent" value=${form.agent ?? ''} onChange=${field('agent')}><option value="">none</option>${(state.agents ?? []).map((a) => html`<option key=${a.name} value=${a.name}>${a.name}</option>`)}</select></label>
      ${objects.map(([name, label, hint]) => html`<label key=${name}>${label}<textarea class="mono" rows="1" name=${name} placeholder=${hint} value=${form[name] ?? ''} onInput=${field(name)}></textarea></label>`)}
      <div class="buttons"><button class="primary" disabled=${busy}>Dry run</button></div>
    </form>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${decision && html`<${Decision} d=${decision} />`}
  </section>`;
}

function Decision({ d }) {
  return html`<div class="card verdict" role="status">
    <p>${d.agent ? html`<b>${d.agent}</b> answers` : html`<b>Nobody</b> would answer`}${d.model && html` with ${d.model}`}
      <span class="muted"> · ${{ named: 'the request names it', rule: 'by the rule ' + d.rule + ' of ' + d.table, default: 'the default agent' }[d.reason] ?? 'no rule matches, and there is no default agent'} · revision ${d.revision}</span></p>
    ${d.mismatch && html`<p class="note">The rules would have chosen <b>${d.expected || 'nobody'}</b>.</p>`}
  </div>
  ${d.rules?.length > 0 && html`<div class="table" tabindex="0" role="region" aria-label="Rules"><table class="grid"><thead><tr><th>rule</th><th class="num">priority</th><th>agent</th><th>matched</th><th>why</th></tr></thead>
    <tbody>${d.rules.map((r, i) => html`<tr key=${i} class=${r.chosen ? 'chosen' : r.matched ? '' : 'faint'}><td>${r.rule}<br /><small class="muted">${r.table}</small></td><td class="num">${r.priority}</td><td>${r.agent}${r.model && html`<br /><small class="muted">${r.model}</small>`}</td><td>${r.chosen ? 'chosen' : r.matched ? 'yes' : 'no'}</td><td class="wrap">${r.reason}</td></tr>`)}</tbody></table></div>`}`;
}
