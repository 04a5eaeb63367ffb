// Running a turn again with something changed, and forking a conversation.
import { html, useState } from './html.js';
import { call, newId, post, segment, words } from './api.js';
import { state, link, go, show } from './store.js';
import { may } from './rights.js';

// stepsOf returns how many steps of a turn are known: its model calls.
const stepsOf = (turn) => Math.max(0, ...turn.segments.map((s) => Number(s.producer.split('/')[1]) || 0));

async function rerun(id, body) {
  const receipt = await post(`v1/turns/${segment(id)}/rerun?wait=false`, { turn_id: newId(), ...body });
  go('turns', receipt.turn_id);
}

// useRerun returns {error, busy, start}: start runs a turn again and leads to the page of the new one.
export function useRerun() {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const start = (id, body) => {
    setBusy(true);
    setError('');
    rerun(id, body).catch((err) => {
      setError(words(err));
      setBusy(false);
    });
  };
  return { error, busy, start };
}

export function RerunForm({ turn, step }) {
  const [form, setForm] = useState({ step: String(Math.min(step, stepsOf(turn))), agent: '', model: '', prompt: '' });
  const { error, busy, start } = useRerun();
  const set = (fields) => setForm({ ...form, ...fields });
  const field = (name) => (e) => set({ [name]: e.currentTarget.value });
  const agents = (state.agents ?? []).filter((a) => !a.fault);
  const agent = agents.find((a) => a.name === (form.agent || turn.agent));
  const steps = Array.from({ length: stepsOf(turn) }, (_, i) => i + 1);
  const run = (e) => {
    e.preventDefault();
    const { agent: other, model, prompt } = form;
    start(turn.id, { ...(form.step !== '0' && { from_step: Number(form.step) }), ...(other && { agent: other }), ...(model && { model }), ...(prompt.trim() && { prompt }) });
  };
  return html`<form class="fields card again" aria-label="Run again" onSubmit=${run}>
    <label>From<select name="from_step" value=${form.step} onChange=${field('step')}><option value="0">the beginning</option>
      ${steps.map((n) => html`<option key=${n} value=${n}>step ${n}</option>`)}</select></label>
    <label>Agent<select name="agent" value=${form.agent} onChange=${(e) => set({ agent: e.currentTarget.value, model: '' })}><option value="">the same: ${turn.agent}</option>
      ${agents.filter((a) => a.name !== turn.agent).map((a) => html`<option key=${a.name} value=${a.name}>${a.name}</option>`)}</select></label>
    <label>Model<select name="model" value=${form.model} onChange=${field('model')}><option value="">${form.agent ? "the agent's own" : 'the same: ' + turn.model}</option>
      ${(agent?.models ?? []).map((m) => html`<option key=${m} value=${m}>${m}</option>`)}</select></label>
    ${agent && may('catalog.write', 'AgentInstance/' + agent.name) && html`<${PromptField} agent=${agent} value=${form.prompt} onInput=${(prompt) => set({ prompt })} />`}
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="buttons"><button class="primary" disabled=${busy}>Run again</button><a class="button" href=${link('turns', turn.id)}>Cancel</a>
      <span class="muted">The agent is its current version. From a step on, the results before it are taken over. The new turn gets a conversation of its own.</span></div>
  </form>`;
}

// PromptField takes another system prompt, which may begin as the agent's own.
function PromptField({ agent, value, onInput }) {
  const [error, setError] = useState('');
  async function begin() {
    try {
      const d = await call(`v1/catalog/documents/AgentInstance/${segment(agent.name)}?tenant=${segment(agent.tenant || 'default')}`);
      onInput(d.body.parameters?.system_message ?? '');
    } catch (err) {
      setError(words(err));
    }
  }
  return html`<div class="promptfield"><label>System prompt, for this run alone<textarea name="prompt" rows=${Math.min(14, value.split('\n').length + 1)} placeholder=${'as ' + agent.name + ' has it'} value=${value} onInput=${(e) => onInput(e.currentTarget.value)}></textarea></label>
    ${!value && html`<button type="button" class="quiet" onClick=${begin}>Begin with the prompt of ${agent.name}</button>`}${error && html`<p class="error" role="alert">${error}</p>`}</div>`;
}

// fork begins a conversation with a copy of another one, up to and including a turn, and leads there.
export async function fork(session, turn) {
  try {
    const forked = await post(`v1/sessions/${segment(session)}/fork`, { turn_id: turn });
    document.dispatchEvent(new Event('turnstone:sessions'));
    go('chat', forked.session_id);
  } catch (err) {
    show({ title: 'Not forked', body: html`<p class="error" role="alert">${words(err)}</p>` });
  }
}
