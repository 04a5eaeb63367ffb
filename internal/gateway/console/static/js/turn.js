// What a turn looks like after the events that came of it. No page, no network: apply(turn, event) is all that changes one.
import { addSources } from './citations.js';
import { write, endCall } from './segments.js';

// newTurn makes a turn of which nothing is known but who asked what.
export function newTurn(id, said = '') {
  return {
    id, said, session: '', status: 'starting', reason: '', agent: '', model: '',
    parts: [], // what is shown, in order: text, reasoning, block, tool, approval, note
    events: [], // of the timeline: {index, at, type, label, …}, without the text
    approvals: [], sources: [], usage: null, calls: [], result: null, error: null, route: null,
    segments: [], // model calls in time: {producer, asked, first, to, call, text, lost}
    waits: [], marks: [], // of the timeline: waits for something other than an approval; restarts, retries and errors
    startedAt: null, endedAt: null, lastAt: 0, last: 0, connection: 'connected', trouble: '', version: 0,
  };
}

// pause is what a running turn waits for, as long as nothing has come since: a model provider that is away.
export const pause = (turn) => (turn.status === 'running' && turn.reasonAt === turn.last ? turn.reason : '');

export const over = (turn) => ['completed', 'failed', 'cancelled'].includes(turn.status);

// The most entries of a timeline; what comes later is counted only.
const maxEvents = 2000;

export function apply(turn, e) {
  const index = e.meta?.event_index ?? 0;
  if (index > 0 && index <= turn.last) return;
  if (index > 0) turn.last = index;
  turn.version++;
  const at = e.meta?.time ? Date.parse(e.meta.time) : 0;
  if (at && !turn.startedAt) turn.startedAt = at;
  const producer = e.meta?.producer ?? '';
  const before = turn.lastAt;
  turn.lastAt = at || before;
  switch (e.type) {
    case 'token':
      text(turn, 'text', producer, index, e.text ?? '');
      write(turn, producer, before, at, e.text);
      return;
    case 'content':
      for (const block of e.content_blocks ?? []) content(turn, producer, index, block);
      write(turn, producer, before, at, '');
      return;
    case 'tool_start':
      toolStart(turn, e, producer, index, at);
      break;
    case 'tool_progress':
      toolOf(turn, e, producer, index, at).progress.push({ index, text: e.text ?? '', at });
      return;
    case 'tool_end': {
      const tool = toolOf(turn, e, producer, index, at);
      Object.assign(tool, { ended: at || tool.started, endIndex: index, output: e.output, ref: e.ref ?? '', failed: Boolean(e.failed), done: true, void: false });
      break;
    }
    case 'approval_requested':
      approval(turn, e.approval, index, at);
      break;
    case 'approval_resolved':
      approval(turn, e.approval, index, at);
      break;
    case 'input_requested':
    case 'input_resolved':
      wait(turn, e.approval, at);
      break;
    case 'route':
      turn.route = e.route ?? null;
      turn.agent = e.route?.agent || turn.agent;
      turn.model = e.route?.model || turn.model;
      break;
    case 'usage':
      turn.calls.push({ index, producer, model: e.model ?? '', usage: e.usage ?? {}, at });
      endCall(turn, turn.calls.at(-1), before);
      turn.model = e.model || turn.model;
      turn.usage = sum(turn.calls);
      break;
    case 'reset':
      reset(turn, e);
      turn.marks.push({ at, name: labelOf(e), detail: 'What it wrote from event ' + (e.from_index ?? 0) + ' on is void.' });
      break;
    case 'error':
      turn.marks.push({ at, name: 'error', failed: true, detail: e.error?.message || e.error?.type || '' });
      if (e.error) turn.parts.push({ kind: 'note', key: 'n' + index, index, producer, level: 'error', text: e.error.message || e.error.type });
      break;
    case 'status':
      status(turn, e, at);
      break;
  }
  if (turn.events.length < maxEvents) turn.events.push({ index, at, type: e.type, producer, label: labelOf(e) });
}

function labelOf(e) {
  switch (e.type) {
    case 'status':
      return e.status + (e.reason ? ' · ' + e.reason : '');
    case 'route':
      return [e.route?.agent, e.route?.reason, e.route?.rule].filter(Boolean).join(' · ');
    case 'usage':
      return e.model ?? '';
    case 'reset':
      return (e.producer ?? '') + ' started again';
    case 'error':
      return e.error?.message ?? '';
    case 'approval_requested':
      return e.approval?.tool_name ?? '';
    case 'approval_resolved':
      return [e.approval?.decision, e.approval?.by && 'by ' + e.approval.by].filter(Boolean).join(' ');
    default:
      return e.tool_name ?? '';
  }
}

// text grows the last part where it is of the same producer and kind, or begins one.
function text(turn, kind, producer, index, piece) {
  let part = turn.parts[turn.parts.length - 1];
  if (!part || part.kind !== kind || part.producer !== producer) {
    part = { kind, key: kind + index, producer, text: '', pieces: [], epoch: 0 };
    turn.parts.push(part);
  }
  part.pieces.push(index, part.text.length);
  part.text += piece;
}

function wait(turn, w, at) {
  if (!w) return;
  const known = turn.waits.find((x) => x.wait.approval_id === w.approval_id);
  if (known) known.to = at;
  else turn.waits.push({ wait: w, from: at, to: null });
}

function content(turn, producer, index, block) {
  switch (block.type) {
    case 'text':
      if (block.text) text(turn, 'text', producer, index, block.text);
      addSources(turn.sources, block.annotations ?? [], block.text ? [block.text] : textsOf(turn, producer), { index, producer });
      return;
    case 'reasoning':
      if (block.reasoning) text(turn, 'reasoning', producer, index, block.reasoning);
      return;
    case 'tool_call':
    case 'tool_result':
      return; // tool_start and tool_end say it better
    default:
      turn.parts.push({ kind: 'block', key: 'b' + index + '.' + turn.parts.length, producer, index, block });
  }
}

// textsOf returns what the model wrote in the step that a producer of citations is about, or all that was written.
function textsOf(turn, producer) {
  const step = producer.split('/')[1];
  const all = turn.parts.filter((p) => p.kind === 'text');
  const own = all.filter((p) => p.producer === 'model/' + step || p.producer === 'answer/' + step);
  return (own.length > 0 ? own : all).map((p) => p.text);
}

function toolStart(turn, e, producer, index, at) {
  const known = turn.parts.find((p) => p.kind === 'tool' && p.id === e.tool_call_id);
  const fresh = {
    producer, index, name: e.tool_name ?? '', input: e.input, source: e.source_node_name ?? '', started: at, ended: 0,
    output: undefined, ref: '', failed: false, done: false, void: false, progress: [],
  };
  if (known) Object.assign(known, fresh);
  else turn.parts.push({ kind: 'tool', key: 't' + e.tool_call_id, id: e.tool_call_id, ...fresh });
}

function toolOf(turn, e, producer, index, at) {
  const known = turn.parts.find((p) => p.kind === 'tool' && p.id === e.tool_call_id);
  if (known) return known;
  toolStart(turn, e, producer, index, at);
  return turn.parts[turn.parts.length - 1];
}

function approval(turn, a, index, at) {
  if (!a) return;
  const known = turn.approvals.find((x) => x.approval.approval_id === a.approval_id);
  if (known) {
    known.approval = { ...known.approval, ...a };
    if (a.decision) known.resolvedAt = at;
    known.key = known.key ?? 'a' + a.approval_id;
    return;
  }
  const part = { kind: 'approval', key: 'a' + a.approval_id, index, approval: a, askedAt: at, resolvedAt: a.decision ? at : 0 };
  turn.approvals.push(part);
  turn.parts.push(part);
}

export const pending = (turn) => (over(turn) ? [] : turn.approvals.filter((p) => !p.approval.decision));

// reset takes back what a producer had written from an index on: it writes it again.
function reset(turn, e) {
  const from = e.from_index ?? 0;
  const his = (p) => p.producer === e.producer;
  for (const p of turn.parts) {
    if (!his(p)) continue;
    switch (p.kind) {
      case 'text':
      case 'reasoning':
        cut(p, from);
        break;
      case 'tool':
        p.progress = p.progress.filter((x) => x.index < from);
        if (p.endIndex >= from) Object.assign(p, { done: false, output: undefined, ref: '', failed: false, ended: 0 });
        if (p.index >= from) p.void = true;
        break;
    }
  }
  turn.parts = turn.parts.filter((p) => !his(p) || (p.pieces ? p.text !== '' : p.kind === 'tool' || p.index < from));
  for (const s of turn.segments) if (s.producer === e.producer && (!s.call || s.call.index >= from)) s.lost = true;
  turn.calls = turn.calls.filter((c) => c.producer !== e.producer || c.index < from);
  turn.usage = sum(turn.calls);
  turn.sources = turn.sources.filter((s) => s.producer !== e.producer || s.index < from);
}

function cut(part, from) {
  for (let i = 0; i < part.pieces.length; i += 2) {
    if (part.pieces[i] >= from) {
      part.text = part.text.slice(0, part.pieces[i + 1]);
      part.pieces.length = i;
      part.epoch++;
      return;
    }
  }
}

function status(turn, e, at) {
  turn.reason = e.reason ?? '';
  turn.reasonAt = turn.last;
  if (e.status === 'RUNNING' && e.reason) turn.marks.push({ at, name: 'pause', detail: e.reason });
  turn.status = { RUNNING: 'running', WAITING: 'waiting', COMPLETED: 'completed', FAILED: 'failed', CANCELLED: 'cancelled' }[e.status] ?? turn.status;
  if (!over(turn)) return;
  turn.endedAt = at;
  if (e.result) finish(turn, e.result);
}

// finish takes over a result, and shows its output where the events told none.
export function finish(turn, result) {
  turn.result = result;
  turn.status = result.status ?? turn.status;
  turn.session = result.session_id || turn.session;
  turn.agent = result.agent || turn.agent;
  turn.model = result.model || turn.model;
  turn.error = result.error ?? null;
  turn.reason = result.stop_reason || turn.reason;
  turn.version++;
  if (result.usage && (result.usage.input_tokens || result.usage.output_tokens)) turn.usage = result.usage;
  const answered = turn.parts.some((p) => p.kind === 'text' && p.text.trim() !== '');
  if (!answered) {
    for (const [i, block] of (result.blocks ?? []).entries()) content(turn, 'result', turn.last + i + 1, block);
    if (!turn.parts.some((p) => p.kind === 'text') && result.output && result.status === 'completed') text(turn, 'text', 'result', turn.last + 1, result.output);
  }
}

// expired is what is known of a turn of whose events some are gone.
export function expired(turn, state) {
  turn.version++;
  turn.parts = [];
  turn.parts.push({ kind: 'note', key: 'gap', index: 0, producer: '', level: 'info', text: 'Earlier events of this turn are no longer kept.' });
  if (state.stop_reason) {
    finish(turn, state);
    return;
  }
  turn.status = state.state === 'waiting' ? 'waiting' : 'running';
  turn.agent = state.agent || turn.agent;
  for (const a of (state.pending ?? []).filter((p) => !p.kind)) approval(turn, a, 0, 0);
}

function sum(calls) {
  if (calls.length === 0) return null;
  const total = { input_tokens: 0, output_tokens: 0, cached_tokens: 0, reasoning_tokens: 0, cost_usd: 0 };
  for (const c of calls) for (const k of Object.keys(total)) total[k] += c.usage[k] ?? 0;
  total.estimated = calls.some((c) => c.usage.estimated);
  total.unpriced = calls.some((c) => c.usage.unpriced);
  return total;
}
