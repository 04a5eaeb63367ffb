// A change of a workflow as a person reads it: what is added, what is removed, and where.
import { html, useMemo } from './html.js';
import { segment } from './api.js';
import { useLoad } from './load.js';
import { link } from './store.js';
import { changes } from './diff.js';
import { Diff } from './diffview.js';
import { visible } from './format.js';

const mostOperations = 200;
const verbs = { add: 'add', remove: 'remove', replace: 'replace' };

// isPatch reports whether a call changes a workflow by operations that can be shown.
export function isPatch(approval) {
  const operations = approval.args?.patch_spec?.operations;
  return approval.tool_name === 'patch_workflow' && Array.isArray(operations) && operations.length > 0 && operations.length <= mostOperations &&
    operations.every((o) => o && typeof o === 'object' && verbs[o.op] && typeof o.path === 'string');
}

// Patch shows the operations of a call of patch_workflow against the workflow as it is now.
export function Patch({ args }) {
  const { workflow_tag: tag = '', workflow_owner: owner, patch_spec: spec } = args;
  const stored = useLoad(tag ? `v1/workflows/${segment(tag)}${owner ? '?owner=' + segment(owner) : ''}` : '');
  const done = useMemo(() => changes(spec.operations, stored.data?.definition), [args, stored.data]);
  return html`<div class="patch">
    <p>Changes the workflow ${tag ? html`<a href=${link('workflows', tag)}><bdi>${visible(tag)}</bdi></a>` : 'of the job'}${owner && html` of <bdi>${visible(owner)}</bdi>`}${stored.data && html` <span class="muted">version ${stored.data.version}</span>`}</p>
    ${spec.description && html`<p class="quoted" dir="auto">${visible(spec.description)}</p>`}
    <ol>${done.map((c, i) => html`<li key=${i}><p class="op"><b>${c.op}</b> <bdi class="mono">${visible(c.path)}</bdi></p>
      ${c.lines.length > 0 && html`<${Diff} lines=${c.lines} label=${'Change ' + (i + 1)} />`}
      ${c.blind && html`<p class="muted">What stands there now is not known${stored.error && html`: ${stored.error}`}</p>`}</li>`)}</ol>
  </div>`;
}
