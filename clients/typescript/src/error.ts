import type { ErrorBody, Failure } from './types.js';

/** What every call throws. */
export class TurnstoneError extends Error {
  override readonly name = 'TurnstoneError';
  /** The server's error type (docs/reference/http.md, "Errors"). The client's own are `unavailable`, when no answer came, and `cancelled`. */
  readonly code: string;
  /** The path of what is wrong in the request. */
  readonly field?: string;
  /** The HTTP status; 0 if no answer came. */
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** How long the server asks to wait, in milliseconds. */
  readonly retryAfterMs: number;

  constructor(failure: Failure, details: { status?: number; retryAfterMs?: number; cause?: unknown } = {}) {
    super(failure.message, { cause: details.cause });
    this.code = failure.type;
    this.field = failure.field;
    this.retryable = failure.retryable;
    this.status = details.status ?? 0;
    this.retryAfterMs = details.retryAfterMs ?? 0;
  }
}

/** The code of a refusal that has no error body, such as a proxy's. */
const codes: Record<number, string> = {
  401: 'unauthenticated', 403: 'denied', 404: 'not_found', 409: 'conflict', 410: 'gap', 413: 'overflow', 429: 'rate_limited',
  502: 'unavailable', 503: 'unavailable', 504: 'unavailable',
};

/** Returns the error that a response holds. */
export async function refusal(response: Response): Promise<TurnstoneError> {
  const { status } = response;
  const retryAfterMs = 1000 * (Number(response.headers.get('Retry-After')) || 0);
  const text = await response.text();
  let failure: Failure;
  try {
    failure = (JSON.parse(text) as ErrorBody).error;
    failure.message.length; // an answer of something else has no such member
  } catch {
    const type = codes[status] ?? (status >= 500 ? 'internal' : 'invalid');
    failure = { type, message: `the server answered ${status} ${response.statusText}`.trim(), retryable: isPassing(type) };
  }
  return new TurnstoneError(failure, { status, retryAfterMs });
}

/** Returns the error of a request that got no answer, or only a part of one. */
export function unreachable(cause: unknown): TurnstoneError {
  if (cause instanceof TurnstoneError) {
    return cause;
  }
  if (cause instanceof SyntaxError) {
    return new TurnstoneError({ type: 'internal', message: 'the answer is no JSON: is it a Turnstone server?', retryable: false }, { cause });
  }
  const { message, cause: reason } = cause as Error;
  const words = reason instanceof Error ? `${message}: ${reason.message}` : message;
  return new TurnstoneError({ type: 'unavailable', message: `no answer: ${words}`, retryable: true }, { cause });
}

/** Reports whether a failure of a code passes by itself. */
export function isPassing(code: string): boolean {
  return code === 'unavailable' || code === 'rate_limited';
}
