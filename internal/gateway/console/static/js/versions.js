// What a catalog document was before: its history, each change as a difference, and a way back.
import { html } from './html.js';
import { state } from './store.js';
import { Rows } from './list.js';
import { Diff } from './diffview.js';
import { difference, textOf } from './documents.js';
import { exactMoment, moment, visible } from './format.js';

export function Versions({ of, onUse }) {
  if (of.tenant === '*' && state.principal?.tenant !== '*') return null; // of no tenant's own
  const path = 'v1/catalog/history?' + new URLSearchParams({ kind: of.kind, name: of.name, ...(of.tenant && { tenant: of.tenant }) });
  return html`<h2>History</h2><${Rows} spec=${{
    title: 'Change', path, field: 'entries', size: 'page_size', after: 'page_token', empty: 'No change was applied yet.', inside: (e) => html`<${Version} entry=${e} onUse=${onUse} />`,
    columns: [
      { name: 'Revision', link: true, cell: (e) => String(e.revision) },
      { name: 'Time', class: 'when', cell: (e) => html`<time datetime=${e.at} title=${exactMoment(e.at)}>${moment(e.at)}</time>` },
      { name: 'What', cell: (e) => e.action }, { name: 'By', cell: (e) => visible(e.by || e.source) }, { name: 'Reason', class: 'words', cell: (e) => visible(e.comment) },
    ],
  }} />`;
}

function Version({ entry: e, onUse }) {
  return html`<p>${e.action} at revision ${e.revision}, ${moment(e.at)}${e.by && html` by ${visible(e.by)}`}${e.comment && html`: ${visible(e.comment)}`}</p>
    <${Diff} lines=${difference(e)} label="What changed" />
    ${e.after && html`<p class="buttons"><button onClick=${() => onUse(textOf(e.after))}>Put this version into the editor</button></p>`}`;
}
