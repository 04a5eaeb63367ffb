// A rerun beside the turn that it repeats: what was said, which tools were called, and what it took.
import { html, useState } from './html.js';
import { segment } from './api.js';
import { link } from './store.js';
import { useLoad } from './load.js';
import { over } from './turn.js';
import { Diff } from './diffview.js';
import { folded, lines } from './diff.js';
import { Status } from './list.js';
import { Prose } from './prose.js';
import { Tabs } from './approvals.js';
import { tokens } from './waterfall.js';
import { cost, duration } from './format.js';

// calledTools lists the tools that a turn called, each with its number of calls.
export function calledTools(result) {
  const counts = new Map();
  for (const c of result.tool_calls ?? []) counts.set(c.tool, (counts.get(c.tool) ?? 0) + 1);
  return [...counts].sort().map(([tool, n]) => (n > 1 ? `${tool} ×${n}` : tool)).join(', ');
}

const rows = [
  ['Ended', (r) => r.stop_reason],
  ['Agent', (r) => r.agent_instance_id || r.agent],
  ['Model', (r) => r.model],
  ['Tools', calledTools],
  ['Tokens', (r) => tokens(r.usage)],
  ['Time', (r) => duration(r.execution_time_ms)],
  ['Cost', (r) => cost(r.usage)],
];

export function Comparison({ turn }) {
  const page = useLoad('v1/turns/' + segment(turn.rerunOf));
  const before = page.data;
  const after = over(turn) ? turn.result : null;
  const head = (title, id, status) => html`<th scope="col">${title} <${Status} of=${status} /><br /><a class="mono" href=${link('turns', id)}>${id}</a></th>`;
  return html`<h2>Beside the original</h2>
    ${page.error && html`<p class="error" role="alert">${page.error}</p>`}
    ${before && html`<div class="table" tabindex="0" role="region" aria-label="Comparison"><table class="grid compare">
      <thead><tr><th></th>${head('Original', before.turn_id, before.status)}${head('Rerun', turn.id, turn.status)}</tr></thead>
      <tbody>${rows.map(([name, of]) => html`<tr key=${name} class=${after && of(before) !== of(after) ? 'differs' : ''}><th scope="row">${name}</th><td class="wrap">${of(before) || '–'}</td><td class="wrap">${after ? of(after) || '–' : '…'}</td></tr>`)}</tbody></table></div>
    <${Texts} before=${before.output ?? ''} after=${after ? after.output ?? '' : null} />`}`;
}

function Texts({ before, after }) {
  const [at, setAt] = useState('side by side');
  if (after === null) return html`<p class="working">The rerun is not over yet.</p>`;
  if (before === after) return html`<p class="note good">The text is the same.</p><${Text} text=${after} />`;
  return html`<header class="row"><h4>Text</h4><span class="grow"></span><${Tabs} all=${['side by side', 'difference']} at=${at} onPick=${setAt} /></header>
    ${at === 'difference' ? html`<${Diff} lines=${folded(lines(before.trimEnd(), after.trimEnd()))} label="Difference of the texts" />`
      : html`<div class="beside"><section aria-label="Original"><h4>Original</h4><${Text} text=${before} /></section><section aria-label="Rerun"><h4>Rerun</h4><${Text} text=${after} /></section></div>`}`;
}

const Text = ({ text }) => (text ? html`<div class="answer"><${Prose} text=${text} epoch=${0} done=${true} sources=${[]} /></div>` : html`<p class="muted">It said nothing.</p>`);
