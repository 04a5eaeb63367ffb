// The card of a tool call: what was asked, how it goes, what came of it.
import { html, useState, useEffect } from './html.js';
import { duration, oneLine, visible } from './format.js';
import { Json } from './json.js';
import { openResult } from './result.js';

const shownProgress = 200;

export function ToolCard({ tool, ended }) {
  const [open, setOpen] = useState(false);
  const state = tool.failed ? 'failed' : tool.done ? 'done' : ended ? 'unknown' : 'running';
  const took = tool.ended && tool.started ? tool.ended - tool.started : null;
  const last = tool.progress.at(-1);
  return html`<details class=${'card tool ' + state} open=${open} onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>
      <span class="dot" aria-hidden="true"></span>
      <b>${visible(tool.name) || 'tool'}</b>
      <span class="grow args">${visible(oneLine(tool.input, 160))}</span>
      <span class="state">${{ running: 'running', done: 'done', failed: 'failed', unknown: 'not finished' }[state]}</span>
      ${state === 'running' && tool.started ? html`<${Elapsed} since=${tool.started} />` : took != null && html`<time>${duration(took)}</time>`}
      ${state === 'running' && last && html`<span class="progressline" role="status">${last.text}</span>`}
    </summary>
    ${open && html`<div class="inside">
      <h4>Arguments</h4><${Json} exact value=${tool.input} />
      ${tool.progress.length > 1 && html`<h4>Progress</h4><ol class="progress">${tool.progress.slice(-shownProgress).map((p) => html`<li key=${p.index}>${p.text}</li>`)}</ol>`}
      ${tool.done && html`<h4>${tool.failed ? 'Error' : 'Result'}</h4><${Json} value=${tool.output} />`}
      <p class="foot">${tool.ref && html`<button class="quiet" onClick=${() => openResult(tool.ref)}>Open the whole result</button>`}
      ${tool.source && html`<span class="muted">from ${tool.source}</span>`} <span class="muted mono">${tool.id}</span></p>
    </div>`}
  </details>`;
}

// Elapsed counts from when the page learnt of it: clocks differ.
function Elapsed() {
  const [began] = useState(() => performance.now());
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const ms = performance.now() - began;
  return ms >= 1000 ? html`<time>${duration(Math.floor(ms / 1000) * 1000)}</time>` : null;
}
