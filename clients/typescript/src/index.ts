/** A client of Turnstone's HTTP API (docs/reference/http.md). */
import { isPassing, refusal, TurnstoneError, unreachable } from './error.js';
import { EventParser } from './sse.js';
import type {
  AgentStepOutput, CancelRequest, Decision, EndedTurn, Event, ForkRequest, MessagePage, ProvidedResult, RerunRequest, SessionForked, SessionSummary, TurnRequest,
  TurnState,
} from './types.js';

export { TurnstoneError } from './error.js';
export { Text } from './text.js';
export type * from './types.js';

export interface ClientOptions {
  /** An API key or a token, sent as a bearer token. */
  apiKey?: string;
  /** Empty: the credential's, or the server's default. */
  tenant?: string;
  /** How long a call may take with its repetitions; default one minute. */
  timeoutMs?: number;
  /** A stream that is silent for longer is taken for dead; above the server's heartbeat of 15 s; default 45 s. */
  idleTimeoutMs?: number;
  /** How long a request that fails for a passing reason is made again; default 30 s; 0: never. */
  retryMs?: number;
  /** Default: the global fetch. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call. A turn that it has started goes on. */
  signal?: AbortSignal;
  /** In place of the client's; a stream has none of its own. */
  timeoutMs?: number;
}

export interface FollowOptions extends CallOptions {
  /** The `event_index` of the last event that was seen; default 0: every event comes. */
  after?: number;
}

/** The server answers a request that waits within 15 minutes. */
const waitMs = 16 * 60_000;

/**
 * Calls one server. A request is made again when no answer came, and when the answer is `unavailable` or `rate_limited`: nothing is run
 * twice by it. The server joins a start with the same key, and accepts the same decision or result again; `conflict` may then say that the
 * turn has ended since.
 */
export class Client {
  readonly #base: string;
  readonly #headers: Record<string, string> = {};
  readonly #options: ClientOptions;

  constructor(server = 'http://127.0.0.1:8080', options: ClientOptions = {}) {
    this.#base = server.replace(/\/+$/, '') + '/v1';
    this.#options = options;
    if (options.apiKey) {
      this.#headers['Authorization'] = `Bearer ${options.apiKey}`;
    }
    if (options.tenant) {
      this.#headers['Turnstone-Tenant'] = options.tenant;
    }
  }

  /** Starts a turn and waits for its result, or for the moment when it waits for a person (`state` is `waiting`). */
  async run(request: TurnRequest, options?: CallOptions): Promise<AgentStepOutput | TurnState> {
    return this.#call('POST', '/turns', { ...options, timeoutMs: options?.timeoutMs ?? waitMs }, withKey(request));
  }

  /** Starts a turn and does not wait for it. */
  async start(request: TurnRequest, options?: CallOptions): Promise<TurnState> {
    return this.#call('POST', '/turns?wait=false', options, withKey(request));
  }

  /** Starts a turn and yields its events. */
  async *stream(request: TurnRequest, options?: CallOptions): AsyncGenerator<Event, void, undefined> {
    const { turn_id } = await this.start(request, options);
    yield* this.follow(turn_id, options);
  }

  /**
   * Yields the events of a turn, each once and in order, until the terminal one. A connection that breaks is made again behind the last
   * event. A `reset` voids what its producer said from `from_index` on: see {@link Text}.
   */
  async *follow(turnId: string, options: FollowOptions = {}): AsyncGenerator<Event, void, undefined> {
    const retry = new Retry(this.#options.retryMs, options.signal, options.timeoutMs);
    for (let after = options.after ?? 0; ; ) {
      const connection = new AbortController();
      try {
        for await (const event of this.#events(turnId, after, retry, connection)) {
          const index = event.meta.event_index;
          if (index === 0 && event.error) {
            throw new TurnstoneError(event.error); // of the stream: it is not in the turn's log
          }
          if (index > after) {
            after = index;
            retry.reset();
            yield event;
            if (event.type === 'status' && ['COMPLETED', 'FAILED', 'CANCELLED'].includes(event.status ?? '')) {
              return;
            }
          }
        }
        return; // 204: nothing will ever come
      } catch (error) {
        await retry.wait(error);
      } finally {
        connection.abort();
      }
    }
  }

  /** Runs a turn that has ended once more, in a branch of its session, and does not wait for the new turn. */
  async rerun(turnId: string, request: RerunRequest = {}, options?: CallOptions): Promise<TurnState> {
    return this.#call('POST', `/turns/${encodeURIComponent(turnId)}/rerun?wait=false`, options, withKey(request));
  }

  /** Makes a session that begins with a copy of another one's messages. */
  async fork(sessionId: string, request: ForkRequest = {}, options?: CallOptions): Promise<SessionForked> {
    return this.#call('POST', `/sessions/${encodeURIComponent(sessionId)}/fork`, options, request);
  }

  /** Gives a session a title of one line and at most 200 characters; '' takes it away. */
  async renameSession(sessionId: string, title: string, options?: CallOptions): Promise<SessionSummary> {
    return this.#call('PATCH', `/sessions/${encodeURIComponent(sessionId)}`, options, { title });
  }

  /** Returns the state of a turn or, once it has ended, its result. */
  async turn(turnId: string, options?: CallOptions): Promise<TurnState | EndedTurn> {
    return this.#call('GET', `/turns/${encodeURIComponent(turnId)}`, options);
  }

  /** Answers an approval: approve, edit, reject or respond. */
  async decide(turnId: string, decision: Decision, options?: CallOptions): Promise<void> {
    await this.#call('POST', `/turns/${encodeURIComponent(turnId)}/decisions`, options, decision);
  }

  /** Hands in the result of a client-side tool. */
  async provide(turnId: string, result: ProvidedResult, options?: CallOptions): Promise<void> {
    await this.#call('POST', `/turns/${encodeURIComponent(turnId)}/results`, options, result);
  }

  /** Stops a turn; it ends a moment later. One that has ended is a `conflict`. */
  async cancel(turnId: string, request: CancelRequest = {}, options?: CallOptions): Promise<void> {
    await this.#call('POST', `/turns/${encodeURIComponent(turnId)}/cancel`, options, request);
  }

  /** Returns a stored result, by turn id, result id, job id or reference. */
  async result(ref: string, options?: CallOptions): Promise<unknown> {
    return this.#call('GET', `/results/${encodeURIComponent(ref)}`, options);
  }

  /** Returns a page of a session's messages behind a position; `next` of one page is `after` of the next. */
  async messages(sessionId: string, page: { after?: number; limit?: number } = {}, options?: CallOptions): Promise<MessagePage> {
    const { after = 0, limit = 0 } = page;
    return this.#call('GET', `/sessions/${encodeURIComponent(sessionId)}/messages?after=${after}&limit=${limit}`, options);
  }

  async #call<T>(method: string, path: string, options: CallOptions = {}, body?: unknown): Promise<T> {
    const { retryMs, timeoutMs = 60_000 } = this.#options;
    for (const retry = new Retry(retryMs, options.signal, options.timeoutMs ?? timeoutMs); ; ) {
      try {
        const response = await this.#open(method, path, retry.signal, body);
        return (await response.json()) as T;
      } catch (error) {
        await retry.wait(error);
      }
    }
  }

  /** Sends a request and returns the response of a success. */
  async #open(method: string, path: string, signal: AbortSignal, body?: unknown, more?: Record<string, string>): Promise<Response> {
    const headers = { ...this.#headers, ...more };
    const init: RequestInit = { method, headers, signal, redirect: 'manual' }; // another server may not get the credential
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(body);
    }
    const response = await (this.#options.fetch ?? fetch)(this.#base + path, init);
    if (!response.ok) {
      throw await refusal(response);
    }
    return response;
  }

  /** Yields the events of one connection. It returns only when nothing will ever come; a stream that just stops is an error. */
  async *#events(turnId: string, after: number, retry: Retry, connection: AbortController): AsyncGenerator<Event, void, undefined> {
    const idleMs = this.#options.idleTimeoutMs ?? 45_000;
    const silence = new TurnstoneError({ type: 'unavailable', message: 'the stream fell silent', retryable: true });
    const within = async <T>(step: Promise<T>): Promise<T> => {
      const timer = setTimeout(() => connection.abort(silence), idleMs);
      return step.finally(() => clearTimeout(timer));
    };
    const headers = { Accept: 'text/event-stream', 'Last-Event-ID': String(after) };
    const path = `/turns/${encodeURIComponent(turnId)}/events`;
    const signal = AbortSignal.any([retry.signal, connection.signal]);
    const response = await within(this.#open('GET', path, signal, undefined, headers));
    if (response.status === 204 || !response.body) {
      return;
    }
    const began = Date.now();
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await within(reader.read());
      if (done) {
        throw new TurnstoneError({ type: 'unavailable', message: 'the stream stopped', retryable: true });
      }
      if (Date.now() - began > idleMs / 4) {
        retry.reset(); // it beats, though nothing happens
      }
      for (const data of parser.push(decoder.decode(value, { stream: true }))) {
        yield JSON.parse(data) as Event;
      }
    }
  }
}

/** Decides when a request is made again: never, unless the failure passes by itself, and for so long without progress. */
class Retry {
  /** Fires with the caller's signal, or when the time is over. */
  readonly signal: AbortSignal;
  readonly #deadline?: AbortSignal; // signals that AbortSignal.any has made do not keep theirs from being collected
  #attempts = 0;
  #until = 0;

  constructor(
    readonly ms = 30_000,
    signal?: AbortSignal,
    timeoutMs?: number,
  ) {
    this.#deadline = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    this.signal = AbortSignal.any([signal, this.#deadline].filter((s) => s !== undefined));
  }

  reset(): void {
    this.#attempts = 0;
  }

  /** Waits until the next attempt, or throws the error if there is none. */
  async wait(cause: unknown): Promise<void> {
    this.#check();
    const error = unreachable(cause);
    if (this.#attempts === 0) {
      this.#until = Date.now() + this.ms;
    }
    const backoff = Math.min(200 * 2 ** this.#attempts++, 5_000) * (0.5 + Math.random() / 2);
    const pause = Math.max(backoff, error.retryAfterMs);
    if (!error.retryable || !isPassing(error.code) || Date.now() + pause > this.#until) {
      throw error;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    });
    this.#check();
  }

  /** Throws an error if the call is to end. */
  #check(): void {
    const details = { cause: this.signal.reason as unknown };
    if (this.#deadline?.aborted) {
      throw new TurnstoneError({ type: 'unavailable', message: 'the call did not end in time', retryable: true }, details);
    }
    if (this.signal.aborted) {
      throw new TurnstoneError({ type: 'cancelled', message: 'the caller ended the call', retryable: false }, details);
    }
  }
}

/** Returns the request with a key, so that the server joins the turn when the request comes again. */
function withKey<R extends TurnRequest | RerunRequest>(request: R): R {
  if (request.turn_id || request.idempotency_key) {
    return request;
  }
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing on pages without TLS
  return { ...request, idempotency_key: Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('') };
}
