// Following a turn's events to their end, over broken connections, without losing or repeating one.
import { open, failureOf, call, segment } from './api.js';
import { SSEParser } from './sse.js';
import { parse } from './exact.js';

const firstWait = 500;
const longestWait = 15000;
const silence = 45000; // the server says something every 15 s

// follow calls on.event(event) for every event behind `after`, and returns when the turn has ended. on.state('connected' | 'waiting', why)
// says how the connection is. on.gap(last) is told that events up to an index are gone. It throws what trying again does not mend.
export async function follow(turn, { after = 0, signal, on, pause = sleep }) {
  let last = after;
  let wait = firstWait;
  let ended = false;
  const take = (event) => {
    const index = event.meta?.event_index ?? 0;
    if (index > 0 && index <= last) return; // seen before the connection broke
    if (index > 0) last = index;
    wait = firstWait;
    on.event(event);
    if (event.type === 'status' && ['COMPLETED', 'FAILED', 'CANCELLED'].includes(event.status)) ended = true;
  };
  while (!ended) {
    let why = null;
    let hint = 0;
    try {
      const end = await once(turn, last, signal, take, () => on.state('connected'));
      if (end.over || ended) return;
      if (end.gap) last = await overGap(turn, last, signal, on);
      if (last < 0) return;
      hint = end.retry;
    } catch (err) {
      if (signal?.aborted) throw err;
      if (err.status && err.status !== 408 && err.status !== 429 && err.status < 500) throw err;
      why = err;
      hint = err.retryAfter ?? 0;
    }
    if (ended) return;
    on.state('waiting', why);
    await pause(Math.max(hint, wait * (0.75 + Math.random() / 2)), signal);
    wait = Math.min(wait * 2, longestWait);
  }
}

// once reads one connection to its end.
async function once(turn, last, signal, take, connected) {
  const control = new AbortController();
  const stop = () => control.abort();
  signal?.addEventListener('abort', stop, { once: true });
  let timer = setTimeout(stop, silence);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, silence);
  };
  const result = { over: false, gap: false, retry: 0 };
  try {
    const headers = { Accept: 'text/event-stream' };
    if (last > 0) headers['Last-Event-ID'] = String(last);
    const response = await open(`v1/turns/${segment(turn)}/events`, { headers, signal: control.signal });
    if (response.status === 204) return { ...result, over: true };
    if (response.status === 410) return { ...result, gap: true };
    if (!response.ok) throw await failureOf(response);
    connected();
    const parser = new SSEParser((e) => {
      let event;
      try {
        event = parse(e.data);
      } catch {
        return; // not one of ours
      }
      if (e.id === '' && event.type === 'error') {
        // Not of the turn, but of its stream: what went wrong here is said and tried again.
        result.gap ||= event.error?.type === 'gap';
        return;
      }
      take(event);
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      alive();
      parser.push(value);
    }
    result.retry = parser.retry ?? 0;
    return result;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
    control.abort();
  }
}

// overGap says that events are gone, and where those that are kept begin: -1 when the turn is over, whose result stands for all of them.
async function overGap(turn, last, signal, on) {
  const state = await call('v1/turns/' + segment(turn), { signal });
  if (state.output !== undefined || state.stop_reason) {
    on.gap(state);
    return -1;
  }
  const now = state.last_event_index ?? 0;
  on.gap(state);
  return Math.max(last, now);
}

// sleep waits for some milliseconds, or until the server that was away is back.
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const wake = () => {
      clearTimeout(timer);
      document.removeEventListener('turnstone:back', wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    document.addEventListener('turnstone:back', wake);
    signal?.addEventListener('abort', () => {
      reject(new DOMException('aborted', 'AbortError'));
      wake();
    }, { once: true });
  });
}
