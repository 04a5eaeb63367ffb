// The lines of two texts, as diff.js compares them: what is added, what is removed, and what stays.
import { html } from './html.js';
import { visible } from './format.js';

const signs = { '+': 'added', '-': 'removed' };
const classes = { '+': 'add', '-': 'remove' };

export function Diff({ lines, label }) {
  return html`<pre class="diff" tabindex="0" aria-label=${label}>${lines.map((l, n) => (l.skipped
    ? html`<span key=${n} class="skipped">${l.skipped === 1 ? '1 line' : l.skipped + ' lines'} as before${'\n'}</span>`
    : html`<span key=${n} class=${classes[l.sign] ?? ''}><span class="hidden">${signs[l.sign] ?? ''} </span><i aria-hidden="true">${l.sign === '-' ? '−' : l.sign}</i>${visible(l.text)}${'\n'}</span>`))}</pre>`;
}
