// A conversation on the page: its turns, and the one that is followed. Turns of a session run one after the other, and so they are
// followed one at a time: a browser has few connections to a host.
import { changed, announce, replace, state } from './store.js';
import { call, post, segment, newId, words, Failure } from './api.js';
import { follow } from './follow.js';
import { newTurn, apply, finish, expired, over, pending } from './turn.js';
import { fromTranscript } from './transcript.js';
import { visible } from './format.js';
import { remember, conversation, givenTitle, loadTitle, titleOf } from './conversations.js';

const mostPages = 25; // of a transcript

const sessions = new Map();
const kept = 12; // sessions in memory

export class Session {
  constructor(id) {
    this.id = id;
    this.turns = [];
    this.loading = false;
    this.error = '';
    this.loaded = false;
    this.control = null; // of what is followed
    this.agent = '';
    this.model = '';
    this.draft = null; // what a turn of a draft has besides: {draft, context}
  }

  // open shows a session: what is stored of it, and the turn that may still run.
  async open(turnId) {
    if (this.loaded) {
      this.pump();
      return;
    }
    if (this.loading) return;
    this.loading = true;
    this.error = '';
    changed();
    loadTitle(this.id);
    try {
      const messages = await this.transcript();
      const known = conversation(this.id);
      let last = turnId || known?.turn || '';
      let said = known?.turn === last ? known?.said : '';
      if (!last || (!said && !messages.some((m) => m.turn_id === last))) {
        const newest = await this.newest();
        if (!last && !newest && messages.length === 0) throw new Error('There is no conversation ' + this.id);
        last ||= newest?.turn_id || messages.at(-1)?.turn_id || '';
        if (newest?.turn_id === last) said = newest.summary;
      }
      this.turns = fromTranscript(messages);
      if (last) this.restore(last, said);
      this.loaded = true;
    } catch (err) {
      this.error = words(err);
    }
    this.loading = false;
    changed();
    this.pump();
  }

  // title is what the conversation is called: its title, else the beginning of its first message.
  title() {
    return visible(givenTitle(this.id)) || titleOf(this.turns[0]?.said ?? '') || (this.turns.length > 0 ? this.id : 'New conversation');
  }

  // newest returns the newest turn of the session, which may still run; null if there is none, or the caller may not list turns.
  async newest() {
    try {
      return (await call(`v1/turns?session=${segment(this.id)}&limit=1`)).turns[0] ?? null;
    } catch (err) {
      if (err instanceof Failure && err.status === 403) return null;
      throw err;
    }
  }

  async transcript() {
    const all = [];
    let after = 0;
    for (let page = 0; page < mostPages; page++) {
      let p;
      try {
        p = await call(`v1/sessions/${segment(this.id)}/messages?after=${after}`);
      } catch (err) {
        if (err instanceof Failure && err.status === 404) return all; // nothing is stored yet
        throw err;
      }
      all.push(...p.messages);
      if (!p.more) break;
      after = p.next;
    }
    return all;
  }

  // restore makes the last turn one that is read from its events, which have more to tell than the transcript; it is shown once.
  restore(id, said) {
    const at = this.turns.findIndex((t) => t.id === id);
    const stored = at >= 0 ? this.turns[at] : null;
    const turn = newTurn(id, stored?.said || said || '');
    turn.session = this.id;
    turn.saidBlocks = stored?.saidBlocks;
    turn.stored = stored; // what is shown when its events are gone
    turn.accepted = true;
    if (at >= 0) this.turns[at] = turn;
    else this.turns.push(turn);
  }

  running() {
    return this.turns.find((t) => !over(t) && t.accepted);
  }

  // pump follows the first turn that has not ended, then the next.
  async pump() {
    if (this.control) return;
    const turn = this.running();
    if (!turn) return;
    const control = (this.control = new AbortController());
    try {
      await this.follow(turn, control.signal);
      if (!over(turn)) await this.settle(turn, control.signal);
    } catch (err) {
      if (control.signal.aborted) return;
      this.lost(turn, err);
    } finally {
      if (this.control === control) this.control = null;
    }
    changed();
    this.pump();
  }

  follow(turn, signal) {
    let was = turn.status;
    return follow(turn.id, {
      after: turn.last, signal,
      on: {
        event: (e) => {
          apply(turn, e);
          if (turn.status !== was) this.tell(turn);
          was = turn.status;
          changed();
        },
        state: (connection, why) => {
          turn.connection = connection;
          turn.trouble = why ? words(why) : '';
          turn.version++;
          changed();
        },
        gap: (view) => {
          expired(turn, view);
          changed();
        },
      },
    });
  }

  // settle asks for the result of a turn whose stream ended without one.
  async settle(turn, signal) {
    const view = await call('v1/turns/' + segment(turn.id), { signal });
    if (view.stop_reason) finish(turn, view);
    else throw new Error('The events of this turn have ended, but the turn has not.');
  }

  lost(turn, err) {
    if (turn.stored) {
      this.turns[this.turns.indexOf(turn)] = turn.stored;
      return;
    }
    turn.status = 'failed';
    turn.error = { type: err.type || 'lost', message: words(err), retryable: false };
    turn.version++;
  }

  tell(turn) {
    const text = { waiting: 'Waiting for your decision.', completed: 'The answer is complete.', failed: 'The turn failed.', cancelled: 'Stopped.' }[turn.status];
    if (text) announce(text);
    if (over(turn)) document.dispatchEvent(new Event('turnstone:sessions'));
    if (over(turn) || pending(turn).length > 0) document.dispatchEvent(new Event('turnstone:pending'));
  }

  // send starts a turn, or puts a message behind the one that runs.
  send(text, { onBusy = 'queue' } = {}) {
    const turn = newTurn(newId(), text);
    turn.session = this.id;
    turn.sending = { onBusy, waits: onBusy === 'queue' && Boolean(this.running()) };
    this.turns.push(turn);
    this.loaded = true;
    remember(this.id, { turn: turn.id, said: text });
    if (state.route.view === 'chat') replace('chat', this.id, turn.id);
    return this.submit(turn);
  }

  // submit may be called again for a turn that could not be sent: its id makes sure that it runs once.
  async submit(turn) {
    const { onBusy, waits } = turn.sending;
    turn.status = 'starting';
    turn.error = null;
    turn.version++;
    changed();
    const body = { turn_id: turn.id, session_id: this.id, message: turn.said, channel: 'console', on_busy: onBusy, ...this.draft };
    if (this.agent) body.agent = this.agent;
    if (this.model) body.model = this.model;
    try {
      await post('v1/turns?wait=false', body);
      if (waits) turn.status = 'queued';
      turn.accepted = true;
      turn.sending = null;
      document.dispatchEvent(new Event('turnstone:sessions'));
    } catch (err) {
      turn.status = 'failed';
      turn.error = { type: err.type || 'unreachable', message: words(err), retryable: true, field: err.field };
    }
    turn.version++;
    changed();
    this.pump();
  }

  async stop() {
    const turn = this.running();
    if (!turn || turn.stopping) return;
    turn.stopping = true;
    turn.version++;
    changed();
    try {
      await post(`v1/turns/${segment(turn.id)}/cancel`, { reason: 'stopped in the console' });
    } catch (err) {
      turn.stopping = false;
      turn.trouble = 'Could not stop: ' + words(err);
      turn.version++;
      changed();
    }
  }

  close() {
    this.control?.abort();
    this.control = null;
  }
}

// session returns the session of an id, and lets the others' streams go.
export function session(id) {
  let s = sessions.get(id);
  if (!s) {
    s = new Session(id);
    sessions.set(id, s);
    if (sessions.size > kept) {
      const [oldest] = sessions.keys();
      sessions.get(oldest).close();
      sessions.delete(oldest);
    }
  }
  for (const other of sessions.values()) if (other !== s) other.close();
  return s;
}

export function closeAll() {
  for (const s of sessions.values()) s.close();
  sessions.clear();
}

// details reads the events of a turn that is over, for its timeline.
export async function details(turn) {
  if (turn.detailed || turn.events.length > 0) return;
  turn.detailed = 'loading';
  turn.version++;
  changed();
  const read = newTurn(turn.id);
  try {
    await follow(turn.id, { on: { event: (e) => apply(read, e), state() {}, gap: (view) => finish(read, view) }, signal: AbortSignal.timeout(30000) });
    if (!read.result) finish(read, await call('v1/turns/' + segment(turn.id)));
    for (const k of ['events', 'segments', 'waits', 'marks', 'calls', 'usage', 'result', 'error', 'route', 'agent', 'model', 'startedAt', 'endedAt', 'status', 'reason']) turn[k] = read[k] ?? turn[k];
    turn.tools = read.parts.filter((p) => p.kind === 'tool');
    turn.approvals = read.approvals;
    turn.detailed = 'done';
  } catch (err) {
    turn.detailed = words(err);
  }
  turn.version++;
  changed();
}
