// The turns of a stored transcript.
import { addSources } from './citations.js';
import { newTurn } from './turn.js';

export function fromTranscript(messages) {
  const turns = [];
  for (const m of messages) {
    let turn = turns.at(-1);
    const id = m.turn_id || '';
    if (!turn || (id ? turn.id !== id : m.role === 'user')) {
      turn = newTurn(id || 'position-' + m.position);
      turn.status = 'completed';
      turn.accepted = true;
      turn.unnamed = !id;
      turn.startedAt = Date.parse(m.created_at) || null;
      turns.push(turn);
    }
    if (m.role === 'user') said(turn, m);
    else for (const [i, block] of (m.blocks ?? []).entries()) part(turn, m.position + '.' + i, block);
  }
  return turns;
}

function said(turn, m) {
  for (const block of m.blocks ?? []) {
    if (block.type === 'text') turn.said += (turn.said ? '\n\n' : '') + block.text;
    else (turn.saidBlocks ??= []).push(block);
  }
}

function part(turn, key, block) {
  switch (block.type) {
    case 'text':
      if (block.text) turn.parts.push(written('text', key, block.text));
      addSources(turn.sources, block.annotations ?? [], [block.text]);
      return;
    case 'reasoning':
      if (block.reasoning) turn.parts.push(written('reasoning', key, block.reasoning));
      return;
    case 'tool_call':
      turn.parts.push({
        kind: 'tool', key: 't' + block.id, id: block.id, name: block.name, input: block.args, source: '', producer: '', progress: [], started: 0, ended: 0,
        output: undefined, ref: '', failed: false, done: false, void: false, stored: true,
      });
      return;
    case 'tool_result': {
      const tool = turn.parts.find((p) => p.kind === 'tool' && p.id === block.tool_call_id);
      if (tool) Object.assign(tool, { output: block.output, ref: block.ref ?? '', failed: block.status === 'error', done: true });
      return;
    }
    default:
      turn.parts.push({ kind: 'block', key: 'b' + key, producer: '', index: 0, block });
  }
}

const written = (kind, key, text) => ({ kind, key: kind + key, producer: '', text, pieces: [], epoch: 0 });
