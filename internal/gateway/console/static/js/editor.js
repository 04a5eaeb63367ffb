// The editor of a catalog document. While somebody writes, the server tries the text: it says what is wrong, or what would change. Nothing changes
// before it is applied.
import { html, useEffect, useRef, useState } from './html.js';
import { words } from './api.js';
import { state, link, linkWith, go, announce, show } from './store.js';
import { loadAgents } from './boot.js';
import { Diff } from './diffview.js';
import { applyText, difference, draftOf, idOf, isSame, keepDraft, nameOf, readDocument, refusal, withBefore } from './documents.js';
import { Versions } from './versions.js';
import { Trial, agentOf } from './trial.js';
import { may } from './rights.js';
import { moment } from './format.js';

const typing = 400; // milliseconds without a key after which the text is tried

export function Editor({ kind = '', name = '' }) {
  const { tenant = '', version = '' } = state.route.query;
  const of = { kind, name, tenant, version };
  const id = idOf(of);
  const [loaded, setLoaded] = useState({ id: '' });
  const [attempt, setAttempt] = useState(0);
  const [applied, setApplied] = useState(null);
  const [why, setWhy] = useState({ comment: '', by: 'console' }); // of the history
  const reload = () => setAttempt((n) => n + 1);
  useEffect(() => {
    document.title = (name || 'New document') + ' · Catalog · Turnstone';
    const control = new AbortController();
    const done = (more) => control.signal.aborted || setLoaded({ id, attempt, ...more });
    readDocument(of, control.signal).then((found) => done({ found }), (err) => done({ error: words(err) }));
    return () => control.abort();
  }, [id, attempt, state.principal]);
  const { found, error } = loaded.id === id ? loaded : {};
  const d = found?.document;
  // onApplied shows the document that was applied, which has another address if it has another name.
  const onApplied = (result) => {
    const [change] = result.changes;
    setApplied({ revision: result.revision, name: nameOf(change) });
    setWhy({ ...why, comment: '' });
    announce('Applied.');
    loadAgents();
    if (result.changes.length > 1 || (d && isSame(change, d))) reload();
    else go(['catalog', 'edit', change.kind, change.name], { tenant: change.tenant, version: change.version });
  };
  return html`<section class="page wide editor">
    <header><p class="crumb"><a href=${link('catalog', 'documents')}>Catalog</a></p><h1 class="wrap">${name || 'New document'}</h1>
      ${d && html`<p class="muted wrap">${about(d)}</p>`}<span class="grow"></span>
      ${d && kind === 'AgentInstance' && html`<a class="button" href=${linkWith(['chat'], { agent: name })}>Chat with ${name}</a>`}</header>
    ${d && applied?.name === nameOf(d) && html`<p class="note good" role="status">Applied as revision ${applied.revision}. Turns that start now run it.</p>`}
    ${error && html`<p class="error" role="alert">${error} <button onClick=${reload}>Try again</button></p>`}
    ${!found && !error && html`<p class="working">Loading…</p>`}
    ${found && html`<${Editing} key=${id + loaded.attempt} id=${id} of=${of} found=${found} why=${why} onWhy=${setWhy} onReload=${reload} onApplied=${onApplied} />
      ${d && html`<${Versions} key=${'history' + loaded.attempt} of=${of} onUse=${(text) => { keepDraft(id, { text }); show(null); reload(); }} />`}`}
  </section>`;
}

const about = (d) => [d.kind, d.tenant === '*' ? 'shared' : d.tenant, d.version, 'from ' + d.source, d.revision > 0 && 'revision ' + d.revision, d.updated_by && `by ${d.updated_by}, ${moment(d.updated_at)}`].filter(Boolean).join(' · ');

// useTrial returns what the server makes of a text: {busy, changes, error}. It asks when nobody has typed for a moment.
function useTrial({ text, revision }, wanted) {
  const [trial, setTrial] = useState({});
  useEffect(() => {
    if (!wanted) return undefined;
    const control = new AbortController();
    const done = (more) => control.signal.aborted || setTrial({ text, revision, ...more });
    const timer = setTimeout(() => applyText(text, { dry_run: true, base_revision: revision }, { signal: control.signal })
      .then((r) => done({ changes: r.changes.filter((c) => c.action !== 'unchanged') }), (error) => done({ error })), typing);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text, revision, wanted, state.comebacks]);
  return { ...(wanted ? trial : {}), busy: wanted && (trial.text !== text || trial.revision !== revision) };
}

// Editing is the text of one version of a document and what came of it. A draft without a revision is compared with the version that was found.
function Editing({ id, of, found, why, onWhy, onReload, onApplied }) {
  const [draft, setDraft] = useState(() => ({ text: found.text, ...draftOf(id), revision: draftOf(id)?.revision ?? found.revision }));
  const [failure, setFailure] = useState(null);
  const area = useRef();
  const tried = useRef(); // the agent that the text made last: its trial stays while the text is wrong
  const refused = refusal(of);
  const edited = draft.text !== found.text;
  const trial = useTrial(draft, !refused && (edited || !of.name));
  const error = failure ?? trial.error;
  const changes = trial.changes?.map((c) => withBefore(c, found.document));
  const keep = (next) => keepDraft(id, next);
  const ready = !trial.busy && !trial.error;
  tried.current = agentOf(changes) ?? tried.current;
  const write = (text) => {
    setDraft({ ...draft, text });
    setFailure(null);
    keep(text === found.text ? null : { ...draft, text });
  };
  async function apply() {
    try {
      const result = await applyText(draft.text, { base_revision: draft.revision, comment: why.comment.trim(), ...(state.config.auth ? {} : { by: why.by.trim() }) });
      keep(null);
      onApplied(result);
    } catch (err) {
      setFailure(err);
    }
  }
  return html`${refused && html`<p class="note">For reading. ${refused}</p>`}
    <div class="editing">
      <label>Text, YAML or JSON<${Area} box=${area} text=${draft.text} locked=${Boolean(refused)} invalid=${Boolean(error)} onInput=${write} /></label>
      ${!refused && html`<div class="outcome">
        ${error ? html`<${Wrong} error=${error} area=${area} onCompare=${() => { keep({ text: draft.text }); onReload(); }} />` : html`<${Outcome} changes=${changes} busy=${trial.busy} />`}
        <${ApplyForm} why=${why} onWhy=${onWhy} ready=${ready && failure?.status !== 409 && changes?.length > 0} edited=${edited}
          onApply=${apply} onDiscard=${() => { keep(null); onReload(); }} />
        ${tried.current && may('turns.run', tried.current.name) && html`<${Trial} agent=${tried.current} text=${draft.text} ready=${ready && Boolean(agentOf(changes))} />`}
      </div>`}
    </div>`;
}

function Outcome({ changes, busy }) {
  if (!changes) return html`<p class=${busy ? 'working' : 'muted'} role="status">${busy ? 'Checking…' : 'Edit the text: what would change is shown here.'}</p>`;
  if (changes.length === 0) return html`<p class="muted" role="status">The text is valid, and nothing would change.</p>`;
  return changes.map((c) => html`<div key=${nameOf(c) + c.tenant} class="patch"><p class="op"><b>${{ created: 'Creates', updated: 'Changes', replaced: 'Replaces', deleted: 'Removes' }[c.action]}</b> <span class="mono">${nameOf(c)}</span>
    ${c.tenant && html` <span class="muted">${c.tenant === '*' ? 'shared by every tenant' : 'of ' + c.tenant}</span>`}</p><${Diff} lines=${difference(c)} label=${'Change of ' + nameOf(c)} /></div>`);
}

// Wrong says what is wrong with the text, each fault with its line and the field's path.
function Wrong({ error, area, onCompare }) {
  if (error.status === 409 && error.field !== 'name') { // of the field name: it is edited elsewhere
    return html`<div class="card broken" role="alert"><p><b>Somebody applied another version meanwhile.</b> ${error.message.replace('base_revision: ', '')}. Your text is kept.</p>
      <p class="buttons"><button onClick=${onCompare}>Compare with that version</button></p></div>`;
  }
  const faults = error.faults ?? [];
  if (faults.length === 0) return html`<p class="error" role="alert">${words(error)}</p>`;
  return html`<ul class="faults" role="status" aria-label="Faults">${faults.map((f, i) => html`<li key=${i}>
    ${f.line > 0 && html`<button class="quiet" onClick=${() => selectLine(area.current, f.line)}>line ${f.line}</button>`} <b class="mono">${f.path}</b> ${f.message}</li>`)}</ul>`;
}

function ApplyForm({ why, onWhy, ready, edited, onApply, onDiscard }) {
  const [busy, setBusy] = useState(false);
  const field = (name) => (e) => onWhy({ ...why, [name]: e.currentTarget.value });
  async function apply(e) {
    e.preventDefault();
    setBusy(true);
    await onApply();
    setBusy(false);
  }
  return html`<form class="fields" onSubmit=${apply}>
    <label class="reason">Reason<input name="comment" maxlength="4000" placeholder="for the history" value=${why.comment} onInput=${field('comment')} /></label>
    ${!state.config.auth && html`<label>Author<input name="by" maxlength="200" value=${why.by} onInput=${field('by')} /></label>`}
    <div class="buttons"><button class="primary" disabled=${!ready || busy}>Apply</button>${edited && html`<button type="button" onClick=${onDiscard}>Discard the edit</button>`}</div>
  </form>`;
}

function Area({ box, text, locked, invalid, onInput }) {
  return html`<textarea ref=${box} name="text" class="mono" rows="16" spellcheck=${false} autocapitalize="off" readonly=${locked} aria-invalid=${invalid ? 'true' : 'false'}
    value=${text} onInput=${(e) => onInput(e.currentTarget.value)} onKeyDown=${keys}></textarea>`;
}

// keys makes the text's keys those of an editor: Enter begins a line where the line before it began, and further in below a name; Ctrl S goes on to the
// reason, where Enter applies.
function keys(e) {
  const command = e.ctrlKey || e.metaKey;
  if (command && e.key === 's') {
    e.preventDefault();
    document.querySelector('.outcome [name="comment"]')?.focus();
  }
  if (e.key !== 'Enter' || e.isComposing || command || e.currentTarget.readOnly) return;
  const { value, selectionStart: at } = e.currentTarget;
  const line = value.slice(value.lastIndexOf('\n', at - 1) + 1, at);
  e.preventDefault();
  document.execCommand('insertText', false, '\n' + /^ */.exec(line)[0] + (/(:|: [|>][-+]?)$/.test(line) ? '  ' : ''));
}

function selectLine(area, line) {
  const before = area.value.split('\n').slice(0, line - 1).join('\n').length;
  const from = line > 1 ? before + 1 : 0;
  const end = area.value.indexOf('\n', from);
  area.blur(); // a text that gets the focus scrolls to its selection
  area.setSelectionRange(from, end < 0 ? area.value.length : end);
  area.focus();
}
