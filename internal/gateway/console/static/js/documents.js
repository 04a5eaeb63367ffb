// Catalog documents as the editor has them: their text, their address here, and what is written and not applied yet.
import { call, post, segment } from './api.js';
import { state, linkWith } from './store.js';
import { on } from './html.js';
import { lines, folded } from './diff.js';
import { yaml } from './yaml.js';
import { may } from './rights.js';

const first = ['kind', 'tenant', 'name', 'version', 'description', 'node_id', 'node_version'];

// textOf is a document as YAML, what it is called at the top.
export function textOf(body) {
  if (!body) return undefined;
  const rest = Object.entries(body).filter(([k]) => !first.includes(k));
  return yaml(Object.fromEntries([...first.filter((k) => k in body).map((k) => [k, body[k]]), ...rest])) + '\n';
}

// difference returns the lines that a change of a document adds and removes, each with a few lines around it.
export const difference = (change) => folded(lines(textOf(change.before)?.trimEnd(), textOf(change.after)?.trimEnd()));

export const nameOf = (d) => [d.kind + '/' + d.name, d.version].filter(Boolean).join(' ');

export const isSame = (a, b) => nameOf(a) === nameOf(b) && (a.tenant ?? '') === (b.tenant ?? '');

// withBefore adds what a change replaces where the server does not say it: a document that is not stored, but shipped or of the configuration.
export const withBefore = (change, document) => (document && !change.before && isSame(change, document) ? { ...change, action: 'replaced', before: document.body } : change);

// idOf names a document in this page; without a name, the one that is new.
export const idOf = ({ kind = '', name = '', tenant = '', version = '' }) => JSON.stringify([kind, name, tenant, version]);

export const editLink = ({ kind, name, tenant, version }) => linkWith(['catalog', 'edit', kind, name], { tenant, version });

// refusal says why the credential may not change a document; '' if it may.
export function refusal({ kind, name, tenant }) {
  if (tenant === '*' && state.principal?.tenant !== '*') return 'Documents of every tenant can be changed with a credential of every tenant alone.';
  const resource = kind + '/' + name;
  return may('catalog.write', name ? resource : undefined) ? '' : `This credential does not allow catalog.write${name ? ' of ' + resource : ''}.`;
}

const template = `kind: AgentInstance
name: new-agent
description: What it does, in a sentence.
node_id: agent
node_version: "1"
parameters:
  system_message: |-
    You are …
`;

// readDocument returns a document's text, the document, and the revision of the catalog that both are of; without a name, a template of an agent.
export async function readDocument({ kind, name, tenant, version }, signal) {
  const { revision } = await call('v1/catalog/status', { signal });
  if (!name) return { text: template, document: null, revision };
  const query = new URLSearchParams({ ...(tenant && { tenant }), ...(version && { version }) });
  const document = await call(`v1/catalog/documents/${segment(kind)}/${segment(name)}?${query}`, { signal });
  return { text: textOf(document.body), document, revision };
}

export const applyText = (text, more, options) => post('v1/catalog/apply', { files: [{ name: 'document', data: text }], ...more }, options);

// What was written and not applied, by document and credential: {text, revision}. It outlives the view, and the browser asks before it leaves the page.
const drafts = new Map();
const keyOf = (id) => [state.principal?.tenant, state.principal?.subject || state.principal?.credential, id].join('/');

export const draftOf = (id) => drafts.get(keyOf(id));

export function keepDraft(id, draft) {
  if (draft) drafts.set(keyOf(id), draft);
  else drafts.delete(keyOf(id));
}

on(window, 'beforeunload', (e) => drafts.size > 0 && e.preventDefault());
