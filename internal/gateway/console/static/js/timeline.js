// What a turn did, when, for how long and at what price, below its answer.
import { html, useEffect } from './html.js';
import { details } from './session.js';
import { over } from './turn.js';
import { link } from './store.js';
import { duration, cost } from './format.js';
import { openResult } from './result.js';
import { Facts } from './list.js';
import { Waterfall, Events, tokens } from './waterfall.js';

export function Timeline({ turn }) {
  useEffect(() => {
    if (over(turn)) details(turn);
  }, [turn.id, turn.status]);
  if (turn.detailed === 'loading') return html`<p class="muted">Loading…</p>`;
  return html`<div class="timeline">
    <${Facts} facts=${turnFacts(turn)} />
    <${Waterfall} turn=${turn} />
    <${Events} turn=${turn} />
    ${turn.detailed && turn.detailed !== 'done' && html`<p class="error">${turn.detailed}</p>`}
  </div>`;
}

// turnFacts are what is known of a turn beyond its text.
export function turnFacts(turn) {
  const total = turn.result?.execution_time_ms || (turn.endedAt && turn.startedAt ? turn.endedAt - turn.startedAt : 0);
  const ref = turn.result?.result_ref;
  return [
    ['Turn', html`<a class="mono" href=${link('turns', turn.id)}>${turn.id}</a>`],
    ['Agent', turn.result?.agent_instance_id || turn.agent],
    ['Model', turn.model],
    ['Route', turn.route && [turn.route.reason, turn.route.rule].filter(Boolean).join(' · ')],
    ['Took', duration(total)],
    ['Tokens', tokens(turn.usage)],
    ['Cost', cost(turn.usage)],
    ['Ended', over(turn) && turn.reason],
    ['Result', ref && html`<button class="quiet mono" onClick=${() => openResult(ref)}>${ref}</button>`],
  ];
}
