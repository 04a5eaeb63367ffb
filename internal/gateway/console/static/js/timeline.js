// What a turn did, when, for how long and at what price.
import { html, useEffect } from './html.js';
import { details } from './session.js';
import { over } from './turn.js';
import { duration, count, cost, visible } from './format.js';
import { openResult } from './result.js';

// spans are what has a beginning and an end, by when they began; times are milliseconds behind the beginning of the turn.
export function spans(turn) {
  const zero = turn.startedAt ?? 0;
  const rows = [];
  for (const s of turn.spells?.values() ?? []) {
    const call = turn.calls.find((c) => c.producer === s.producer);
    if (!/^(model|answer)\b/.test(s.producer) && !call) continue;
    rows.push({ kind: 'model', name: call?.model || s.producer, from: s.from, to: call?.at || s.to, usage: call?.usage });
  }
  for (const c of turn.calls) {
    if (!turn.spells?.has(c.producer)) rows.push({ kind: 'model', name: c.model || c.producer, from: c.at, to: c.at, usage: c.usage });
  }
  for (const p of [...turn.parts, ...(turn.tools ?? [])]) {
    if (p.kind === 'tool' && !p.void && p.started) rows.push({ kind: 'tool', name: p.name, from: p.started, to: p.ended || null, failed: p.failed });
  }
  for (const p of turn.approvals) {
    if (p.askedAt) rows.push({ kind: 'wait', name: 'approval of ' + p.approval.tool_name, from: p.askedAt, to: p.resolvedAt || null });
  }
  const end = turn.endedAt ?? Math.max(zero, ...rows.map((r) => r.to ?? r.from));
  return rows.map((r) => ({ ...r, from: r.from - zero, to: (r.to ?? end) - zero, open: r.to === null && !over(turn) })).sort((a, b) => a.from - b.from || a.to - b.to);
}

export function Timeline({ turn }) {
  useEffect(() => {
    if (over(turn)) details(turn);
  }, [turn.id, turn.status]);
  if (turn.detailed === 'loading') return html`<p class="muted">Loading…</p>`;
  const rows = spans(turn);
  const total = turn.result?.execution_time_ms || (turn.endedAt && turn.startedAt ? turn.endedAt - turn.startedAt : 0);
  const scale = Math.max(total, 1, ...rows.map((r) => r.to));
  const u = turn.usage;
  return html`<div class="timeline">
    <dl class="facts">
      ${fact('Turn', html`<span class="mono">${turn.id}</span>`)}
      ${fact('Agent', turn.result?.agent_instance_id || turn.agent)}
      ${fact('Model', turn.model)}
      ${fact('Route', turn.route && [turn.route.reason, turn.route.rule].filter(Boolean).join(' · '))}
      ${fact('Took', duration(total))}
      ${fact('Tokens', u && `${count(u.input_tokens)} in${u.cached_tokens ? ` (${count(u.cached_tokens)} cached)` : ''}, ${count(u.output_tokens)} out${u.reasoning_tokens ? ` (${count(u.reasoning_tokens)} reasoning)` : ''}${u.estimated ? ', estimated' : ''}`)}
      ${fact('Cost', cost(u))}
      ${fact('Ended', over(turn) && turn.reason)}
      ${fact('Result', turn.result?.result_ref && html`<button class="quiet mono" onClick=${() => openResult(turn.result.result_ref)}>${turn.result.result_ref}</button>`)}
    </dl>
    ${rows.length > 0 && html`<ol class="spans" aria-label="Timeline">${rows.map((r, i) => html`<li key=${i} class=${r.kind + (r.failed ? ' failed' : '') + (r.open ? ' open' : '')}>
      <span class="name">${visible(r.name)}</span>
      <span class="track" aria-hidden="true"><span class="bar" style=${{ left: (100 * r.from) / scale + '%', width: Math.max(0.6, (100 * (r.to - r.from)) / scale) + '%' }}></span></span>
      <span class="took">${r.open ? 'running' : duration(r.to - r.from)}</span>
      <span class="more">${r.usage ? `${count(r.usage.input_tokens)} → ${count(r.usage.output_tokens)}` : ''}</span>
    </li>`)}</ol>`}
    ${turn.events.length > 0 && html`<details class="fold"><summary>${count(turn.last)} events</summary><table class="events"><tbody>${turn.events.map((e) => html`<tr key=${e.index}>
      <td class="num">${e.index}</td><td class="num">+${duration(e.at - (turn.startedAt ?? e.at)) || '0 ms'}</td><td>${e.type.replace('_', ' ')}</td><td class="wrap">${visible(e.label)}</td></tr>`)}</tbody></table></details>`}
    ${turn.detailed && turn.detailed !== 'done' && html`<p class="error">${turn.detailed}</p>`}
  </div>`;
}

function fact(name, value) {
  return value ? html`<div><dt>${name}</dt><dd>${value}</dd></div>` : null;
}
