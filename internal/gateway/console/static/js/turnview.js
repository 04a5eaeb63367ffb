// One turn on the page: what was said, what came of it.
import { html, Component } from './html.js';
import { state, changed, linkWith } from './store.js';
import { over, pause } from './turn.js';
import { Prose } from './prose.js';
import { Block, Reasoning } from './blocks.js';
import { Sources } from './sources.js';
import { ToolCard } from './tool.js';
import { ApprovalCard } from './approval.js';
import { Timeline } from './timeline.js';
import { Icon } from './icons.js';
import { duration, count, cost, visible } from './format.js';
import { segment } from './api.js';
import { fork } from './rerun.js';
import { may } from './rights.js';

// cutShort is what is said below an answer that is not whole, by stop reason.
const cutShort = {
  max_tokens: "The answer is cut short: it reached the model's output limit.",
  content_filter: "The answer is cut short: the model provider's content filter stopped it.",
};

// TurnView draws a turn again only when that turn changed: a long conversation costs nothing while its last turn streams.
export class TurnView extends Component {
  constructor() {
    super();
    this.state = { open: false };
  }

  shouldComponentUpdate(next, nextState) {
    return next.turn !== this.props.turn || next.turn.version !== this.drawn || nextState.open !== this.state.open || next.ui !== this.props.ui;
  }

  render({ turn, session, ui }, { open }) {
    this.drawn = turn.version;
    const ended = over(turn);
    return html`<article class=${'turn ' + turn.status} data-turn=${turn.id}>
      ${(turn.said || turn.saidBlocks) && html`<div class="said"><h3 class="hidden">You</h3><p>${turn.said}</p>${turn.saidBlocks?.map((b, i) => html`<${Block} key=${i} block=${b} />`)}</div>`}
      <div class="answer" aria-live="polite" aria-busy=${ended ? 'false' : 'true'}>
        <h3 class="hidden">${turn.agent || 'Agent'}</h3>
        ${turn.parts.map((p, i) => this.part(turn, p, i === turn.parts.length - 1, ended))}
        <${Sources} sources=${turn.sources} />
        ${!ended && html`<${Working} turn=${turn} />`}
        ${turn.status === 'failed' && html`<${Broken} turn=${turn} session=${session} />`}
        ${turn.status === 'completed' && cutShort[turn.reason] && html`<p class="note">${cutShort[turn.reason]}</p>`}
        ${turn.status === 'cancelled' && html`<p class="note">Stopped${turn.error?.message ? ': ' + turn.error.message : '.'}</p>`}
      </div>
      ${turn.accepted && html`<footer class="meta">
        <span>${[turn.agent, turn.model, ended && duration(turn.result?.execution_time_ms), turn.usage && count(turn.usage.input_tokens + turn.usage.output_tokens) + ' tokens', cost(turn.usage)].filter(Boolean).join(' · ')}</span>
        <span class="grow"></span>
        ${!turn.unnamed && html`<button class="quiet" aria-expanded=${open ? 'true' : 'false'} onClick=${() => this.setState({ open: !open })}><${Icon} name="clock" /> Timeline</button>`}
        ${ended && !turn.unnamed && may('turns.run') && html`<a class="quiet" href=${linkWith(['turns', turn.id], { again: '0' })} title="Run this turn again, with another model or prompt" aria-label="Run again"><${Icon} name="again" /></a>
          <button class="quiet" title="Fork: a new conversation that begins with a copy of this one, up to here" aria-label="Fork" onClick=${() => fork(session.id, turn.id)}><${Icon} name="fork" /></button>`}
        ${ui && !turn.unnamed && html`<a class="quiet" href=${workflow(turn.id)} target="_blank" rel="noopener"><${Icon} name="external" /> Temporal</a>`}
      </footer>`}
      ${open && html`<${Timeline} turn=${turn} />`}
    </article>`;
  }

  part(turn, p, last, ended) {
    switch (p.kind) {
      case 'text':
        return html`<${Prose} key=${p.key} text=${p.text} epoch=${p.epoch} done=${ended || !last} sources=${turn.sources} cited=${turn.sources.length} />`;
      case 'reasoning':
        return html`<${Reasoning} key=${p.key} part=${p} done=${ended || !last} />`;
      case 'block':
        return html`<${Block} key=${p.key} block=${p.block} />`;
      case 'tool':
        return p.void ? null : html`<${ToolCard} key=${p.key} tool=${p} ended=${ended} />`;
      case 'approval':
        return html`<${ApprovalCard} key=${p.key} approval=${p.approval} over=${ended} onDecided=${(a) => {
          p.approval = a;
          turn.version++;
          changed();
        }} />`;
      case 'note':
        return html`<p key=${p.key} class=${'note ' + p.level}>${p.text}</p>`;
    }
    return null;
  }
}

export function workflow(id) {
  const { ui_url: base, namespace } = state.config;
  return `${base}/namespaces/${segment(namespace)}/workflows/${segment('turn/' + id)}`;
}

function Working({ turn }) {
  let text = { starting: 'Starting…', queued: 'Waiting for the turn before it…', waiting: 'Waiting for a decision' }[turn.status];
  if (turn.status === 'waiting' && !turn.approvals.some((a) => !a.approval.decision)) text = 'Waiting: ' + (turn.reason || 'for somebody').replaceAll('_', ' ');
  const last = turn.parts.at(-1);
  if (!text) text = pause(turn) || (last?.kind === 'text' ? 'Writing…' : last?.kind === 'tool' && !last.done ? 'Running ' + visible(last.name) + '…' : 'Thinking…');
  if (turn.stopping) text = 'Stopping…';
  if (turn.connection === 'waiting') text = 'Connection lost. ' + (turn.trouble || 'Reconnecting…');
  else if (turn.trouble) text = turn.trouble;
  return text ? html`<p class="working" role="status">${text}</p>` : null;
}

function Broken({ turn, session }) {
  const e = turn.error ?? {};
  const again = turn.sending;
  return html`<div class="card broken" role="alert">
    <p><b>${again ? 'Not sent' : 'The turn failed'}</b>${e.message && html`<span>: ${e.message}</span>`}</p>
    ${[e.tool && 'tool ' + e.tool, e.step && 'step ' + e.step, !again && (turn.reason || e.type)].filter(Boolean).length > 0 &&
      html`<p class="muted mono">${[e.tool && 'tool ' + e.tool, e.step && 'step ' + e.step, !again && (turn.reason || e.type)].filter(Boolean).join(' · ')}</p>`}
    ${turn.said && html`<p class="buttons"><button onClick=${() => (again ? session.submit(turn) : session.send(turn.said))}>Try again</button></p>`}
  </div>`;
}
