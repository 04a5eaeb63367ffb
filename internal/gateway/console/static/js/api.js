// The REST API, with the credential of whoever looks. Paths are relative to the page, so that a proxy may serve it below a prefix.
import { parse } from './exact.js';

const store = 'turnstone.credential';
const tenantStore = 'turnstone.tenant';

// Failure is an answer that is an error, in the server's words.
export class Failure extends Error {
  constructor(status, body, retryAfter) {
    const e = body?.error ?? {};
    super(e.message || 'HTTP ' + status);
    this.status = status;
    this.type = e.type || '';
    this.field = e.field || '';
    this.faults = e.faults ?? []; // of documents: {line, column, document, path, message}
    this.retryable = Boolean(e.retryable);
    this.retryAfter = retryAfter;
  }
}

let waiting = null; // for a credential: {promise, resolve}
let asker = () => {};

export const credential = {
  get() {
    return sessionStorage.getItem(store) || localStorage.getItem(store) || '';
  },
  set(value, keep) {
    this.forget();
    (keep ? localStorage : sessionStorage).setItem(store, value);
  },
  forget() {
    sessionStorage.removeItem(store);
    localStorage.removeItem(store);
  },
  // onWanted is told why a credential is wanted: '' for the first one, else what was wrong with the one there is.
  onWanted(tell) {
    asker = tell;
  },
  // given lets the requests go on that wait for one.
  given() {
    waiting?.resolve();
    waiting = null;
  },
};

export const tenant = {
  get: () => sessionStorage.getItem(tenantStore) || '',
  set: (name) => (name ? sessionStorage.setItem(tenantStore, name) : sessionStorage.removeItem(tenantStore)),
};

function wanted(why) {
  if (!waiting) {
    waiting = {};
    waiting.promise = new Promise((resolve) => (waiting.resolve = resolve));
    asker(why);
  }
  return waiting.promise;
}

// open sends a request and returns the response, whatever its status but 401: that asks for a credential and tries again.
export async function open(path, { method = 'GET', body, headers = {}, signal } = {}) {
  for (;;) {
    const key = credential.get();
    const all = { Accept: 'application/json', ...headers };
    if (key) all.Authorization = 'Bearer ' + key;
    if (tenant.get()) all['Turnstone-Tenant'] = tenant.get();
    if (body !== undefined) all['Content-Type'] = 'application/json';
    const response = await send(path, { method, signal, headers: all, body: body === undefined ? undefined : JSON.stringify(body) });
    if (response.status !== 401) return response;
    const failure = await failureOf(response);
    if (key !== credential.get()) continue; // somebody entered another one meanwhile
    await Promise.race([wanted(key ? failure.message : ''), aborted(signal)]);
  }
}

async function send(path, options) {
  try {
    return await fetch(new URL(path, document.baseURI), { ...options, credentials: 'same-origin', cache: 'no-store', referrerPolicy: 'no-referrer', redirect: 'error' });
  } catch (err) {
    if (err instanceof TypeError) document.dispatchEvent(new Event('turnstone:lost'));
    throw err;
  }
}

function aborted(signal) {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')), { once: true }));
}

export async function failureOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // a proxy's page, or nothing
  }
  const after = Number(response.headers.get('Retry-After'));
  return new Failure(response.status, body, after > 0 ? after * 1000 : 0);
}

// call returns the JSON of an answer; an error is a Failure, or a TypeError where the server cannot be reached.
export async function call(path, options) {
  const response = await open(path, options);
  if (!response.ok) throw await failureOf(response);
  return response.status === 204 ? null : parse(await response.text());
}

export const post = (path, body, options) => call(path, { method: 'POST', body, ...options });

export const segment = encodeURIComponent;

// words says for a person what went wrong.
export function words(err) {
  if (err instanceof Failure) {
    switch (true) {
      case err.status === 403:
        return 'Not allowed: ' + err.message;
      case err.status === 429:
        return 'Too much at once: ' + err.message;
      case err.status === 503:
        return 'Not available at the moment: ' + err.message;
      case err.status >= 500 && !err.type:
        return 'The server could not answer (HTTP ' + err.status + ').';
      default:
        return err.message;
    }
  }
  if (err instanceof TypeError) return 'The server cannot be reached.';
  return String(err?.message ?? err);
}

// newId makes an id that nobody else has, also on a page that came over plain HTTP.
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  const x = Array.from(b, (n) => n.toString(16).padStart(2, '0')).join('');
  return [x.slice(0, 8), x.slice(8, 12), x.slice(12, 16), x.slice(16, 20), x.slice(20)].join('-');
}
