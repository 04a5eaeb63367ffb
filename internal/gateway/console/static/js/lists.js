// What each list shows: its path, its filters, its columns, and where a row leads.
import { html } from './html.js';
import { state, link, linkWith } from './store.js';
import { segment } from './api.js';
import { Facts, Rows, Status } from './list.js';
import { Code, Json } from './json.js';
import { duration, count, cost, exactMoment, moment, oneLine, visible } from './format.js';
import { yaml } from './yaml.js';

// time writes a time; the server's zero time, of what never happened, is nothing.
const time = (t) => t && !t.startsWith('0001-') && html`<time datetime=${t} title=${exactMoment(t)}>${moment(t)}</time>`;
const took = (from, to) => (to ? duration(Date.parse(to) - Date.parse(from)) : '');
const mono = (text) => text && html`<span class="mono">${visible(text)}</span>`;
const turnLink = (id) => id && html`<a class="mono" href=${link('turns', id)}>${id}</a>`;
const failed = (error) => error && html`<span class="error">${visible(oneLine(error.message || error.type, 200))}</span>`;

const turnColumns = [
  { name: 'Time', link: true, class: 'when', cell: (t) => time(t.started_at) },
  { name: 'Status', cell: (t) => html`<${Status} of=${t.status} />` },
  { name: 'Message', class: 'words', cell: (t) => html`${t.rerun_of && html`<small class="tag">rerun</small> `}${visible(oneLine(t.summary, 200))}` },
  { name: 'Agent', cell: (t) => visible(t.agent) },
  { name: 'User', cell: (t) => visible(t.user_id) },
  { name: 'Channel', cell: (t) => visible(t.channel) },
  { name: 'Took', class: 'num', cell: (t) => took(t.started_at, t.finished_at) },
  { name: 'Tokens', class: 'num', cell: (t) => t.usage && count(t.usage.input_tokens + t.usage.output_tokens) },
  { name: 'Cost', class: 'num', cell: (t) => cost(t.usage) },
];

export const turns = {
  title: 'Turns', path: 'v1/turns', field: 'turns', every: 10000, columns: turnColumns, open: (t) => link('turns', t.turn_id),
  empty: 'No turn has run yet.',
  filters: [
    { name: 'text', label: 'Message', hint: 'part of it' },
    { name: 'status', label: 'Status', choices: ['queued', 'running', 'waiting', 'completed', 'failed', 'cancelled'] },
    { name: 'agent', label: 'Agent' }, { name: 'user', label: 'User' }, { name: 'channel', label: 'Channel' },
    { name: 'since', label: 'Since', kind: 'span' },
  ],
};

export const audit = {
  title: 'Audit', about: 'Who did what, or tried to.', empty: 'Nothing was recorded yet.', path: 'v1/audit', field: 'records', after: 'before',
  columns: [
    { name: 'Time', link: true, class: 'when', cell: (r) => time(r.at) },
    { name: 'Outcome', cell: (r) => html`<${Status} of=${r.outcome} />` },
    { name: 'Action', cell: (r) => mono(r.action) },
    { name: 'Resource', class: 'wrap', cell: (r) => mono(r.resource) },
    { name: 'Who', class: 'wrap', cell: (r) => visible(r.subject || r.credential) },
    { name: 'Channel', cell: (r) => visible(r.channel) },
    { name: 'From', cell: (r) => visible(r.remote) },
  ],
  filters: [
    { name: 'outcome', label: 'Outcome', choices: ['allowed', 'denied', 'failed'] },
    { name: 'action', label: 'Action', hint: 'turns.*' }, { name: 'subject', label: 'Subject' }, { name: 'since', label: 'Since', kind: 'span' },
  ],
};

const runColumns = [
  { name: 'Time', link: true, class: 'when', cell: (r) => time(r.started_at) },
  { name: 'Status', cell: (r) => html`<${Status} of=${r.status} />` },
  { name: 'Workflow', cell: (r) => r.workflow_tag },
  { name: 'Version', class: 'num', cell: (r) => r.version },
  { name: 'User', cell: (r) => visible(r.user_id) },
  { name: 'Schedule', cell: (r) => visible(r.schedule) },
  { name: 'Took', class: 'num', cell: (r) => took(r.started_at, r.finished_at) },
  { name: 'Error', class: 'wrap', cell: (r) => failed(r.error) },
];

export const runs = {
  title: 'Runs', path: 'v1/runs', field: 'runs', size: 'page_size', after: 'page_token', every: 10000, columns: runColumns, open: (r) => link('runs', r.run_id),
  empty: 'No workflow has run yet.',
  filters: [{ name: 'tag', label: 'Workflow' }, { name: 'status', label: 'Status', choices: ['running', 'completed', 'failed', 'cancelled'] }],
};

const stepColumns = [
  { name: 'Node', link: true, cell: (s) => visible(s.node_id) + (s.visit > 1 ? ' #' + s.visit : '') },
  { name: 'Type', cell: (s) => s.type },
  { name: 'Status', cell: (s) => html`<${Status} of=${s.status} />` },
  { name: 'Outcome', cell: (s) => s.outcome },
  { name: 'Took', class: 'num', cell: (s) => took(s.started_at, s.finished_at) },
  { name: 'Turn', class: 'wrap', cell: (s) => turnLink(s.turn_id) },
  { name: 'Output', class: 'words', cell: (s) => failed(s.error) || visible(oneLine(s.output, 200)) },
];

export const run = {
  view: 'runs', one: 'run', back: 'Runs', path: (id) => 'v1/runs/' + segment(id), every: 5000,
  show: (r) => html`<${Facts} facts=${[
    ['Status', html`<${Status} of=${r.status} />`], ['Workflow', html`<a href=${linkWith(['workflows', r.workflow_tag], { owner: r.workflow_owner })}>${r.workflow_tag}, version ${r.version}</a>`],
    ['Owner', r.workflow_owner], ['User', r.user_id], ['Schedule', r.schedule], ['Started', time(r.started_at)], ['Took', took(r.started_at, r.finished_at)], ['Error', failed(r.error)],
  ]} />
  <h2>Input</h2><${Json} value=${r.input} />
  <h2>Steps</h2><${Rows} spec=${{ title: 'Steps', rows: r.steps, columns: stepColumns, empty: 'No node has run yet.' }} />`,
};

export const workflows = {
  title: 'Workflows', empty: 'No workflow is stored yet.', path: 'v1/workflows', field: 'workflows', size: 'page_size', after: 'page_token',
  open: (w) => linkWith(['workflows', w.workflow_tag], { owner: w.workflow_owner }),
  columns: [
    { name: 'Workflow', link: true, cell: (w) => w.workflow_tag },
    { name: 'Owner', cell: (w) => visible(w.workflow_owner) },
    { name: 'Version', class: 'num', cell: (w) => w.version },
    { name: 'Description', class: 'words', cell: (w) => visible(oneLine(w.definition?.description, 200)) },
    { name: 'Nodes', class: 'num', cell: (w) => count(w.definition?.nodes?.length) },
    { name: 'Schedules', class: 'num', cell: (w) => count(w.definition?.schedules?.length) },
    { name: 'Changed', class: 'when', cell: (w) => time(w.updated_at) },
    { name: 'By', cell: (w) => visible(w.updated_by) },
  ],
  filters: [{ name: 'tag', label: 'Workflow' }, { name: 'owner', label: 'Owner' }],
};

const changes = (tag, owner) => ({
  title: 'Changes', path: `v1/workflows/${segment(tag)}/patches?owner=${segment(owner)}`, field: 'patches', size: 'page_size', after: 'page_token',
  columns: [
    { name: 'Version', link: true, cell: (p) => String(p.version) },
    { name: 'Time', class: 'when', cell: (p) => time(p.at) },
    { name: 'By', cell: (p) => visible(p.by) },
    { name: 'Why', class: 'words', cell: (p) => visible(p.description) || (p.operations ? '' : 'the whole definition') },
    { name: 'Operations', class: 'num', cell: (p) => p.operations && count(p.operations.length) },
  ],
});

export const workflow = {
  view: 'workflows', one: 'workflow', back: 'Workflows', path: (tag, query) => `v1/workflows/${segment(tag)}${query.owner ? '?owner=' + segment(query.owner) : ''}`,
  show: (w) => html`<${Facts} facts=${[
    ['Owner', w.workflow_owner], ['Version', w.version], ['Changed', time(w.updated_at)], ['By', w.updated_by], ['Hash', w.hash && html`<span class="mono hash">${w.hash}</span>`],
  ]} />
  <p class="wrap">${visible(w.definition?.description)}</p>
  <h2>Runs</h2><${Rows} spec=${{ ...runs, path: `v1/runs?tag=${segment(w.workflow_tag)}&owner=${segment(w.workflow_owner)}`, filters: undefined }} />
  <h2>Changes</h2><${Rows} spec=${changes(w.workflow_tag, w.workflow_owner)} />
  <h2>Definition</h2><${Code} text=${visible(yaml(w.definition))} lang="yaml" />`,
};

const clock = (s) => [...(s.cron ?? []), s.every && 'every ' + s.every].filter(Boolean).join(', ') + (s.time_zone ? ' ' + s.time_zone : '');

export const schedules = {
  title: 'Schedules', empty: 'There is no schedule yet.', path: 'v1/schedules', field: 'schedules', size: 'page_size', after: 'page_token', open: (s) => link('schedules', s.name),
  columns: [
    { name: 'Schedule', link: true, cell: (s) => s.name },
    { name: 'State', cell: (s) => html`<${Status} of=${s.paused ? 'paused' : 'active'} />` },
    { name: 'Kind', cell: (s) => s.kind || 'scheduled' },
    { name: 'When', cell: (s) => mono(clock(s)) },
    { name: 'Agent', cell: (s) => visible(s.agent) || 'by the routes' },
    { name: 'Message', class: 'words', cell: (s) => visible(oneLine(s.message, 200)) },
    { name: 'By', cell: (s) => visible(s.updated_by) },
  ],
};

const scheduleRuns = (name) => ({
  title: 'Runs', path: `v1/schedules/${segment(name)}/runs`, field: 'runs', size: 'page_size', after: 'page_token', every: 10000,
  empty: 'It has not run yet.', open: (r) => r.turn_id && link('turns', r.turn_id),
  columns: [
    { name: 'Time', link: true, class: 'when', cell: (r) => time(r.started_at) },
    { name: 'Status', cell: (r) => html`<${Status} of=${r.status} />` },
    { name: 'Took', class: 'num', cell: (r) => took(r.started_at, r.ended_at) },
    { name: 'Answer', class: 'words', cell: (r) => failed(r.error) || (r.quiet ? html`<span class="muted">nothing to say</span>` : visible(oneLine(r.output, 200))) },
    { name: 'Notified', class: 'wrap', cell: (r) => (r.notices ?? []).map((n) => `${n.kind} ${n.target}: ${n.status}`).join(', ') },
  ],
});

export const schedule = {
  view: 'schedules', one: 'schedule', back: 'Schedules', path: (name) => 'v1/schedules/' + segment(name), every: 30000,
  show: (s) => html`<${Facts} facts=${[
    ['State', html`<${Status} of=${s.paused ? 'paused' : 'active'} />`], ['Note', visible(s.note)], ['When', mono(clock(s))], ['Next run', s.next?.length > 0 && time(s.next[0])],
    ['After that', s.next?.length > 1 && html`${s.next.slice(1, 4).map((t, i) => html`${i > 0 && ', '}${time(t)}`)}`],
    ['Agent', s.agent || 'by the routes'], ['Model', s.model], ['User', s.user_id], ['By', s.updated_by], ['Revision', s.revision],
  ]} />
  ${s.description && html`<p class="wrap">${visible(s.description)}</p>`}
  <h2>Message</h2><p class="quoted">${visible(s.message)}</p>
  <h2>Runs, newest first</h2><${Rows} spec=${scheduleRuns(s.name)} />
  <details class="fold"><summary>The whole schedule</summary><${Json} value=${s} /></details>`,
};

// Shared collections are listed for credentials of every tenant alone.
export const collections = () => ({
  title: 'Knowledge', about: 'What agents answer from.', empty: 'There is no collection yet.', path: 'v1/catalog/documents?kind=KnowledgeCollection' + (state.principal?.tenant === '*' ? '&tenant=*' : ''),
  field: 'documents', size: 'page_size', after: 'page_token', open: (d) => link('knowledge', d.name),
  columns: [
    { name: 'Collection', link: true, cell: (d) => d.name },
    { name: 'Tenant', cell: (d) => (d.tenant === '*' ? 'shared' : d.tenant) },
    { name: 'Description', class: 'words', cell: (d) => visible(d.body?.description) },
    { name: 'Changed', class: 'when', cell: (d) => time(d.updated_at) },
  ],
});

export const documents = (collection) => ({
  title: 'Documents', path: `v1/knowledge/${segment(collection)}/documents`, field: 'documents', size: 'page_size', after: 'page_token',
  empty: 'This collection has no documents.',
  columns: [
    { name: 'Document', link: true, class: 'wrap', cell: (d) => visible(d.title || d.id) },
    { name: 'Source', class: 'wrap', cell: (d) => mono(d.source) },
    { name: 'Type', cell: (d) => d.mime_type },
    { name: 'Size', class: 'num', cell: (d) => count(d.bytes) },
    { name: 'Chunks', class: 'num', cell: (d) => count(d.chunks) },
    { name: 'Changed', class: 'when', cell: (d) => time(d.updated_at) },
  ],
});
