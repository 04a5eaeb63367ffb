// A stored result, in a dialog: the beginning to read, the whole to keep.
import { html, useEffect, useState } from './html.js';
import { open, failureOf, words } from './api.js';
import { parse } from './exact.js';
import { show } from './store.js';
import { Code } from './json.js';
import { count } from './format.js';

const mostShown = 256 << 10;
const mostKept = 64 << 20;

export function openResult(ref) {
  show({ title: 'Result', body: html`<${Result} ref_=${ref} />` });
}

function Result({ ref_: ref }) {
  const [state, set] = useState({ loading: true });
  const [attempt, retry] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    set({ loading: true });
    load(ref, control.signal).then(set, (err) => control.signal.aborted || set({ error: words(err) }));
    return () => control.abort();
  }, [ref, attempt]);
  return html`<p class="mono muted wrap">${ref}</p>
    ${state.loading && html`<p class="working">Loading…</p>`}
    ${state.error && html`<p class="error" role="alert">${state.error} <button class="quiet" onClick=${() => retry(attempt + 1)}>Try again</button></p>`}
    ${state.blob && html`
      <p class="foot"><button onClick=${() => save(state.blob, ref)}>Save</button> <span class="muted">${count(state.blob.size)} bytes${state.cut ? ', of which the beginning is shown' : ''}</span></p>
      <${Code} text=${state.text} lang=${state.json ? 'json' : ''} />`}`;
}

async function load(ref, signal) {
  const response = await open('v1/results/' + ref.split('/').map(encodeURIComponent).join('/'), { signal, headers: { Accept: '*/*' } });
  if (!response.ok) throw await failureOf(response);
  const parts = [];
  let size = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > mostKept) {
      reader.cancel();
      throw new Error(`The result is larger than ${mostKept >> 20} MiB: fetch it with a command.`);
    }
  }
  const blob = new Blob(parts, { type: 'application/octet-stream' });
  let text = await blob.slice(0, mostShown).text();
  const json = (response.headers.get('Content-Type') ?? '').includes('json');
  if (json && size <= mostShown) {
    try {
      text = JSON.stringify(parse(text), null, 2);
    } catch {
      // shown as it is
    }
  }
  return { blob, text, json, cut: size > mostShown };
}

function save(blob, ref) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = ref.replace(/[^\w.-]+/g, '_').slice(-80) + '.json';
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
