// The card of a call that waits for a person: the call in full, and the decisions that its policy allows.
import { html, useState, useRef, useEffect } from './html.js';
import { post, segment, words } from './api.js';
import { parse, raw } from './exact.js';
import { moment, visible } from './format.js';
import { state } from './store.js';
import { Json } from './json.js';
import { Patch, isPatch } from './patch.js';

const all = ['approve', 'edit', 'reject', 'respond'];
const labels = { approve: 'Approve', edit: 'Edit…', reject: 'Reject…', respond: 'Answer it myself…' };
const done = { approve: 'Approved', edit: 'Approved with changes', reject: 'Rejected', respond: 'Answered' };

export function ApprovalCard({ approval: a, over, onDecided }) {
  const [mode, setMode] = useState('');
  const [remember, setRemember] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState('');
  const allowed = a.allowed_decisions?.length ? all.filter((d) => a.allowed_decisions.includes(d)) : all;
  const decided = a.decision;

  async function decide(decision, more = {}) {
    setBusy(true);
    setError('');
    const body = { approval_id: a.approval_id, decision, ...more };
    if (remember && (decision === 'approve' || decision === 'reject')) body.remember = true;
    if (!state.config.auth) body.by = 'console';
    try {
      await post(`v1/turns/${segment(a.turn_id)}/decisions`, body);
      onDecided?.({ ...a, decision, message: more.message ?? '', by: state.principal?.subject || body.by || '' });
      setMode('');
    } catch (err) {
      setError((err.field ? err.field + ': ' : '') + words(err).replace(err.field + ': ', ''));
    }
    setBusy(false);
  }

  if (decided || over) {
    return html`<div class=${'card approval settled ' + (decided || 'lapsed')}>
      <p><b>${decided ? done[decided] ?? decided : 'Not decided'}</b> · <bdi class="mono">${visible(a.tool_name)}</bdi>
      ${a.by && html` · by <bdi>${visible(a.by)}</bdi>`}${a.remembered && ' · remembered for this conversation'}</p>
      ${a.message && html`<p class="muted" dir="auto">${visible(a.message)}</p>`}
      <details class="fold"><summary>The call</summary><${Json} exact value=${a.decided_args ?? a.args} /></details>
    </div>`;
  }
  return html`<section class="card approval" aria-label=${'Approval of ' + visible(a.tool_name)}>
    <header><b>Waiting for you</b><span class="grow">The agent wants to run <bdi class="mono">${visible(a.tool_name)}</bdi></span></header>
    ${described(a) && html`<p class="wrap" dir="auto">${visible(described(a))}</p>`}
    ${a.rule && html`<p class="muted">${reason(a.rule, visible(a.tool_name))}</p>`}
    ${mode !== 'edit' && isPatch(a) && html`<${Patch} args=${a.args} /><details class="fold"><summary>The call as it is sent</summary><${Json} exact value=${a.args} /></details>`}
    ${mode !== 'edit' && !isPatch(a) && html`<${Json} exact value=${a.args} />`}
    ${mode === '' && html`<div class="buttons">
      ${allowed.map((d) => html`<button key=${d} class=${d === 'approve' ? 'primary' : d === 'reject' ? 'danger' : ''} disabled=${busy}
        data-decision=${d} onClick=${() => (d === 'approve' ? decide('approve') : setMode(d))}>${labels[d]}</button>`)}
    </div>`}
    ${mode === 'edit' && html`<${Edit} args=${a.args} busy=${busy} onSend=${(args) => decide('edit', { args })} onBack=${() => setMode('')} />`}
    ${mode === 'reject' && html`<${Say} label="Why not? The model reads it." send="Reject" busy=${busy} onSend=${(message) => decide('reject', message ? { message } : {})} onBack=${() => setMode('')} />`}
    ${mode === 'respond' && html`<${Say} label="The answer that the model gets instead of running the tool" send="Answer" needed busy=${busy} onSend=${(message) => decide('respond', { message })} onBack=${() => setMode('')} />`}
    ${(mode === '' || mode === 'reject') && a.remember && a.remember !== 'off' && html`<label class="check"><input type="checkbox" checked=${remember} onChange=${(e) => setRemember(e.currentTarget.checked)} />
      ${a.remember === 'tool' ? 'Decide the same for every call of this tool in this conversation' : 'Decide the same for this very call in this conversation'}</label>`}
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <p class="foot muted">${a.rule && html`<bdi class="mono">${visible(a.rule)}</bdi>`} ${a.expires_at && html`<span>until ${moment(a.expires_at)}, then ${a.on_expiry || 'rejected'}</span>`}</p>
  </section>`;
}

// described returns what the person is told, without the call that the gate's own text repeats: the card shows it in full.
function described(a) {
  const text = a.description ?? '';
  const at = text.lastIndexOf(`\n\nTool: ${a.tool_name}\nArgs: `);
  return at < 0 ? text : text.slice(0, at);
}

// reason says in words why a gate asks a person; a rule that is not known stays as it is.
export function reason(rule, tool) {
  const option = /^human_in_the_loop: (.*?)( failed, so a person is asked)?$/.exec(rule);
  switch (true) {
    case rule === 'not inherently safe':
      return `You are asked because ${tool} is not marked as safe, and the agent does not let it run without a person.`;
    case rule === 'always asked':
      return `You are asked because the settings of ${tool} always want a person.`;
    case option?.[1] === 'default':
      return 'You are asked because the agent wants a person for every call that it does not allow by name.';
    case Boolean(option?.[2]):
      return `You are asked to be safe: the agent's condition "${visible(option[1])}" could not be evaluated.`;
    case /(^|\.)when$/.test(option?.[1] ?? ''):
      return `You are asked because the call meets the agent's condition "${visible(option[1])}".`;
    case option?.[1] === 'interrupt_on.' + tool:
      return `You are asked because the agent wants a person for every call of ${tool}.`;
    default:
      return 'The rule: ' + visible(rule);
  }
}

// check says what is wrong with edited arguments; '' when nothing is.
export function check(text) {
  let v;
  try {
    v = parse(text);
  } catch (err) {
    return 'No JSON: ' + err.message;
  }
  return v === null || typeof v !== 'object' || Array.isArray(v) || raw(v) !== undefined ? 'The arguments are a JSON object: {…}' : '';
}

function Edit({ args, busy, onSend, onBack }) {
  const [text, setText] = useState(() => visible(JSON.stringify(args ?? {}, null, 2))); // the same JSON: unedited, it runs what was asked
  const wrong = check(text);
  return html`<form class="decide" onSubmit=${(e) => { e.preventDefault(); if (!wrong) onSend(parse(text)); }} onKeyDown=${back(onBack)}>
    <label>Arguments to run with<${Area} mono value=${text} onInput=${setText} invalid=${Boolean(wrong)} rows=${Math.min(18, text.split('\n').length + 1)} /></label>
    ${wrong && html`<p class="error" role="alert">${wrong}</p>`}
    <div class="buttons"><button class="primary" disabled=${busy || Boolean(wrong)}>Run with these</button><button type="button" onClick=${onBack}>Back</button></div>
  </form>`;
}

function Say({ label, send, needed, busy, onSend, onBack }) {
  const [text, setText] = useState('');
  return html`<form class="decide" onSubmit=${(e) => { e.preventDefault(); onSend(text.trim()); }} onKeyDown=${back(onBack)}>
    <label>${label}<${Area} value=${text} onInput=${setText} rows="3" /></label>
    <div class="buttons"><button class=${send === 'Reject' ? 'danger' : 'primary'} disabled=${busy || (needed && !text.trim())}>${send}</button><button type="button" onClick=${onBack}>Back</button></div>
  </form>`;
}

function back(onBack) {
  return (e) => {
    if (e.key === 'Escape') {
      e.stopPropagation();
      onBack();
    } else if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
      e.currentTarget.requestSubmit();
    }
  };
}

function Area({ value, onInput, mono, invalid, rows }) {
  const ref = useRef();
  useEffect(() => ref.current.focus(), []);
  return html`<textarea ref=${ref} class=${mono ? 'mono' : ''} rows=${rows} spellcheck=${!mono} aria-invalid=${invalid ? 'true' : 'false'}
    value=${value} onInput=${(e) => onInput(e.currentTarget.value)}></textarea>`;
}
