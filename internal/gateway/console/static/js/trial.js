// Trying the text of an agent in the editor before it is applied: with a message, or on a turn of the past.
import { html, useEffect, useState } from './html.js';
import { newId, segment } from './api.js';
import { state } from './store.js';
import { session } from './session.js';
import { useLoad } from './load.js';
import { useRerun } from './rerun.js';
import { TurnView } from './turnview.js';
import { moment, oneLine, visible } from './format.js';

// agentOf returns the change of the one agent that a text makes or changes; undefined if the text is of something else.
export const agentOf = (changes) => (changes?.length === 1 && changes[0].kind === 'AgentInstance' && changes[0].action !== 'deleted' ? changes[0] : undefined);

// Trial is a conversation with the draft. Each message is answered by the text as it is then, if that is ready.
export function Trial({ agent, text, ready }) {
  const [id] = useState(() => 'draft-' + newId());
  const [message, setMessage] = useState('');
  const s = session(id);
  useEffect(() => () => s.close(), [id]);
  const busy = Boolean(s.running());
  const blocked = !ready || busy || !message.trim();
  const send = (e) => {
    e.preventDefault();
    if (blocked) return;
    s.draft = { draft: text, ...(agent.tenant !== '*' && { context: { tenant: agent.tenant } }) };
    s.send(message);
    setMessage('');
  };
  const key = (e) => e.key === 'Enter' && !e.shiftKey && !e.isComposing && send(e);
  return html`<section class="trial" aria-label="Try the draft">
    ${s.turns.length > 0 && html`<div class="tried">${s.turns.map((t) => html`<${TurnView} key=${t.id} turn=${t} session=${s} ui=${state.config.ui_url} />`)}</div>`}
    <form class="fields" onSubmit=${send}>
      <label>Try the draft with a message<textarea name="message" rows="2" placeholder=${'Ask ' + agent.name + ' as it is written here'} value=${message} onInput=${(e) => setMessage(e.currentTarget.value)} onKeyDown=${key}></textarea></label>
      <div class="buttons"><button disabled=${blocked}>Try the draft</button>${busy && html`<button type="button" onClick=${() => s.stop()}>Stop</button>`}
        <span class="muted">Nothing is applied. Tools run, and ask for approval as the text says.</span></div>
    </form>
    ${agent.before && html`<${PastTurn} agent=${agent.name} text=${text} ready=${ready} />`}
  </section>`;
}

// PastTurn runs a turn of the agent again with the draft, and leads to the comparison.
function PastTurn({ agent, text, ready }) {
  const page = useLoad(`v1/turns?agent=${segment(agent)}&status=completed,failed&limit=20`);
  const turns = page.data?.turns ?? [];
  const [chosen, choose] = useState('');
  const { error, busy, start } = useRerun();
  if (turns.length === 0) return null;
  const id = chosen || turns[0].turn_id;
  return html`<form class="fields" onSubmit=${(e) => { e.preventDefault(); start(id, { draft: text }); }}>
    <label>Or on a turn of the past, beside its answer<select name="turn" value=${id} onChange=${(e) => choose(e.currentTarget.value)}>
      ${turns.map((t) => html`<option key=${t.turn_id} value=${t.turn_id}>${moment(t.started_at)} · ${visible(oneLine(t.summary, 60)) || t.turn_id}</option>`)}</select></label>
    <div class="buttons"><button disabled=${busy || !ready}>Run it with the draft</button><span class="muted">The text here is kept meanwhile.</span></div>
    ${error && html`<p class="error" role="alert">${error}</p>`}
  </form>`;
}
