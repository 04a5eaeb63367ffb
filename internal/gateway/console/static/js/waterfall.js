// What a turn did in time: a row for each model call, tool, preparation and wait, with what it used, and its details on a click.
import { html, useState } from './html.js';
import { linkWith } from './store.js';
import { over } from './turn.js';
import { duration, count, cost, oneLine, visible } from './format.js';
import { Json } from './json.js';
import { openResult } from './result.js';
import { may } from './rights.js';

const waitNames = { client_tool: 'the client runs' };

// spans are what has a beginning and an end, by when they began; times are milliseconds behind the beginning of the turn.
export function spans(turn) {
  const zero = turn.startedAt ?? 0;
  const rows = turn.segments.map((s) => ({
    kind: 'model', name: s.call?.model || s.producer, from: s.asked, first: s.first, to: s.call || s.lost || over(turn) ? s.to : null, usage: s.call?.usage, lost: s.lost,
    about: s.producer, text: s.text, again: over(turn) && !s.lost && turn.id && s.producer.split('/')[1] && linkWith(['turns', turn.id], { again: s.producer.split('/')[1] }),
  }));
  for (const p of [...turn.parts, ...(turn.tools ?? [])]) {
    if (p.kind !== 'tool' || p.void || !p.started) continue;
    const prepares = p.producer.startsWith('prepare');
    rows.push({
      kind: prepares ? 'prepare' : 'tool', name: p.name, from: p.started, to: p.ended || null, failed: p.failed, about: p.source, input: p.input, output: p.output, ref: p.ref,
    });
  }
  for (const p of turn.approvals) {
    if (p.askedAt) rows.push({ kind: 'wait', name: 'approval of ' + p.approval.tool_name, from: p.askedAt, to: p.resolvedAt || null, approval: p.approval });
  }
  for (const w of turn.waits) {
    rows.push({ kind: 'wait', name: `${waitNames[w.wait.kind] ?? 'waits for'} ${w.wait.tool_name}`, from: w.from, to: w.to, approval: w.wait });
  }
  for (const m of turn.marks) rows.push({ kind: 'mark', name: m.name, from: m.at, to: m.at, failed: m.failed, text: m.detail });
  const end = turn.endedAt ?? Math.max(zero, ...rows.map((r) => r.to ?? r.from));
  return rows.map((r) => ({ ...r, from: r.from - zero, first: r.first && r.first - zero, to: (r.to ?? end) - zero, open: r.to === null && !over(turn) }))
    .sort((a, b) => a.from - b.from || a.to - b.to);
}

// The most rows that are drawn; a turn has fewer, as a rule.
const mostRows = 500;

export function Waterfall({ turn }) {
  const rows = spans(turn);
  if (rows.length === 0) return null;
  const total = turn.result?.execution_time_ms || (turn.endedAt && turn.startedAt ? turn.endedAt - turn.startedAt : 0);
  const scale = Math.max(total, 1, ...rows.map((r) => r.to));
  return html`<div class="spans" role="list" aria-label="Timeline">
    <p class="axis" aria-hidden="true"><span></span><span class="ticks">${[0, 0.25, 0.5, 0.75, 1].map((x) => html`<span key=${x}>${duration(Math.round(scale * x)) || '0'}</span>`)}</span></p>
    ${rows.slice(0, mostRows).map((r, i) => html`<${Row} key=${i + r.kind + r.name} row=${r} scale=${scale} />`)}
    ${rows.length > mostRows && html`<p class="muted">${count(rows.length - mostRows)} more are not shown.</p>`}
  </div>`;
}

const kinds = { model: 'model', tool: 'tool', prepare: 'prepare', wait: 'wait', mark: 'event' };

function Row({ row: r, scale }) {
  const [open, setOpen] = useState(false);
  const x = (ms) => (100 * ms) / scale + '%';
  const took = r.kind === 'mark' ? 'at ' + (duration(r.from) || '0 ms') : r.open ? 'running' : duration(r.to - r.from);
  const state = r.lost ? 'lost' : r.failed ? 'failed' : '';
  return html`<details role="listitem" class=${['step', r.kind, state, r.open ? 'open' : ''].join(' ')} open=${open} onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>
      <span class="name"><small class="muted">${kinds[r.kind]}</small> ${visible(r.name)}${state && html` <small class=${state === 'failed' ? 'error' : 'muted'}>${state === 'lost' ? 'repeated' : 'failed'}</small>`}</span>
      <span class="track" aria-hidden="true">
        ${r.first > r.from && html`<span class="bar before" style=${{ left: x(r.from), width: x(r.first - r.from) }}></span>`}
        <span class="bar" style=${{ left: x(r.first ?? r.from), width: Math.max(0.5, (100 * (r.to - (r.first ?? r.from))) / scale) + '%' }}></span></span>
      <span class="took">${took}</span>
      <span class="more">${r.usage ? `${count(r.usage.input_tokens)} → ${count(r.usage.output_tokens)}` : ''}</span>
      <span class="price">${cost(r.usage)}</span>
    </summary>
    ${open && html`<div class="inside"><${Inside} row=${r} /></div>`}
  </details>`;
}

function Inside({ row: r }) {
  const u = r.usage;
  return html`
    <p class="muted">${[kinds[r.kind], r.about && visible(r.about), 'began ' + (duration(r.from) || '0 ms') + ' after the turn', r.first > r.from && 'wrote first after ' + duration(r.first - r.from)].filter(Boolean).join(' · ')}</p>
    ${u && html`<p>${count(u.input_tokens)} tokens in${u.cached_tokens > 0 && ` (${count(u.cached_tokens)} cached)`}, ${count(u.output_tokens)} out${u.reasoning_tokens > 0 && ` (${count(u.reasoning_tokens)} reasoning)`}${u.estimated && ', estimated'} · ${cost(u) || 'no cost'}</p>`}
    ${r.lost && html`<p class="note">It was begun again: this text is void.</p>`}
    ${r.text && html`<p class="quoted">${visible(oneLine(r.text, 4000))}</p>`}
    ${r.kind !== 'model' && r.kind !== 'mark' && html`<h4>Arguments</h4><${Json} exact value=${r.approval ? r.approval.args : r.input} />`}
    ${r.output !== undefined && html`<h4>${r.failed ? 'Error' : 'Result'}</h4><${Json} value=${r.output} />`}
    ${r.approval && html`<p>${r.approval.decision ? html`<b>${r.approval.decision}</b>${r.approval.by && html` by ${visible(r.approval.by)}`}${r.approval.message && ': ' + visible(r.approval.message)}` : 'Not decided.'}</p>`}
    ${r.again && may('turns.run') && html`<p><a href=${r.again}>Run again from this step</a></p>`}
    ${r.ref && html`<p><button class="quiet" onClick=${() => openResult(r.ref)}>Open the whole result</button></p>`}`;
}

// Events is every event of a turn but its text, in a fold.
export function Events({ turn }) {
  if (turn.events.length === 0) return null;
  return html`<details class="fold"><summary>${count(turn.last)} events</summary><table class="events"><tbody>${turn.events.map((e) => html`<tr key=${e.index}>
    <td class="num">${e.index}</td><td class="num">+${duration(e.at - (turn.startedAt ?? e.at)) || '0 ms'}</td><td>${e.type.replace('_', ' ')}</td><td class="wrap">${visible(e.label)}</td></tr>`)}</tbody></table></details>`;
}

// tokens is a usage in words.
export function tokens(u) {
  if (!u) return '';
  return `${count(u.input_tokens)} in${u.cached_tokens ? ` (${count(u.cached_tokens)} cached)` : ''}, ${count(u.output_tokens)} out${u.reasoning_tokens ? ` (${count(u.reasoning_tokens)} reasoning)` : ''}${u.estimated ? ', estimated' : ''}`;
}
