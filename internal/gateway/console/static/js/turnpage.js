// The page of a turn: everything that is known of one run.
import { html, useEffect, useRef, useState } from './html.js';
import { call, segment, words } from './api.js';
import { follow } from './follow.js';
import { newTurn, apply, expired, finish, over } from './turn.js';
import { state, link, linkWith } from './store.js';
import { turnFacts } from './timeline.js';
import { Facts, Rows, Status } from './list.js';
import { turns } from './lists.js';
import { useLoad } from './load.js';
import { Waterfall, Events } from './waterfall.js';
import { workflow } from './turnview.js';
import { RerunForm, fork } from './rerun.js';
import { Comparison } from './compare.js';
import { may } from './rights.js';
import { Prose } from './prose.js';
import { Sources } from './sources.js';
import { exactMoment, moment, visible } from './format.js';

// read fills a turn from its events, to the end of the turn. changed is called when there is something to draw.
async function read(turn, signal, changed) {
  const path = 'v1/turns/' + segment(turn.id);
  const view = await call(path, { signal });
  turn.session = view.session_id;
  turn.agent = view.agent || turn.agent;
  turn.mode = view.mode;
  turn.rerunOf = view.rerun_of;
  turn.fromStep = view.from_step;
  turn.draft = view.draft;
  changed();
  summary(turn, signal).then(changed, () => {}); // who may not list turns sees the rest
  const on = {
    event: (e) => (apply(turn, e), changed()),
    gap: (now) => (expired(turn, now), changed()),
    state: (connection, why) => {
      turn.trouble = connection === 'waiting' ? 'Connection lost. ' + (why ? words(why) : 'Reconnecting…') : '';
      changed();
    },
  };
  await follow(turn.id, { signal, on });
  if (!turn.result) finish(turn, await call(path, { signal }));
  changed();
}

// summary adds what a list of turns knows of a turn and its events do not: who asked, and what.
async function summary(turn, signal) {
  const page = await call(`v1/turns?session=${segment(turn.session)}&limit=200`, { signal });
  turn.listed = page.turns.find((t) => t.turn_id === turn.id);
}

// useTurn returns a turn as it is read, and what went wrong. It is drawn at most once per frame.
function useTurn(id) {
  const [shown, draw] = useState({ turn: newTurn(id), error: '' });
  const frame = useRef(0);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    const turn = newTurn(id);
    const changed = () => {
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        if (!control.signal.aborted) draw({ turn, error: '' });
      });
    };
    read(turn, control.signal, changed).catch((err) => {
      if (control.signal.aborted) return;
      draw({ turn, error: err.status === 404 ? 'There is no turn ' + id : words(err) });
    });
    return () => control.abort();
  }, [id, attempt, state.principal]);
  return { ...shown, reload: () => setAttempt((n) => n + 1) };
}

// Reruns lists the turns that run a turn again, if there are any.
function Reruns({ id }) {
  const rows = useLoad(`v1/turns?rerun_of=${segment(id)}&limit=200`, turns.every).data?.turns ?? [];
  return rows.length > 0 && html`<h2>Reruns</h2><${Rows} spec=${{ ...turns, title: 'Reruns', rows }} />`;
}

export function TurnPage({ id }) {
  const { turn, error, reload } = useTurn(id);
  const { again } = state.route.query; // the step to run again from; 0: the beginning
  const listed = turn.listed;
  const known = turn.session !== '';
  return html`<section class="page wide turnpage">
    <header><p class="crumb"><a href=${link('turns')}>Turns</a></p><h1 class="mono wrap">${id}</h1>
      ${known && html`<${Status} of=${turn.status} />`}<span class="grow"></span>
      ${over(turn) && may('turns.run') && html`<a class="button" href=${linkWith(['turns', id], { again: '0' })}>Run again</a><button title="A new conversation that begins with a copy of this one, up to this turn" onClick=${() => fork(turn.session, id)}>Fork</button>`}
      ${known && state.config.ui_url && html`<a class="button" href=${workflow(id)} target="_blank" rel="noopener">Temporal</a>`}</header>
    ${error && html`<p class="error" role="alert">${error} <button onClick=${reload}>Try again</button></p>`}
    ${!known && !error && html`<p class="working">Loading…</p>`}
    ${over(turn) && again !== undefined && html`<${RerunForm} key=${again} turn=${turn} step=${Number(again) || 0} />`}
    ${known && html`<${Facts} facts=${[
      ['Session', html`<a class="mono" href=${link('chat', turn.session, id)}>${turn.session}</a>`],
      ['Started', startOf(turn)], ['User', visible(listed?.user_id)], ['Channel', visible(listed?.channel)], ['Mode', turn.mode],
      ['Rerun of', turn.rerunOf && html`<a class="mono" href=${link('turns', turn.rerunOf)}>${turn.rerunOf}</a>`], ['From step', turn.fromStep], ['Draft', turn.draft && 'its agent was not applied'],
      ['Asked by', listed?.parent_turn_id && html`<a class="mono" href=${link('turns', listed.parent_turn_id)}>${listed.parent_turn_id}</a>`],
      ...turnFacts(turn).slice(1),
    ]} />
    ${turn.error && html`<p class="card broken" role="alert"><b>${turn.error.type}</b> ${visible(turn.error.message)} <span class="muted mono">${[turn.error.tool && 'tool ' + turn.error.tool, turn.error.step && 'step ' + turn.error.step].filter(Boolean).join(' · ')}</span></p>`}
    ${listed?.summary && html`<p class="quoted" aria-label="Message">${visible(listed.summary)}</p>`}
    ${turn.trouble && html`<p class="working" role="status">${turn.trouble}</p>`}
    ${turn.parts.filter((p) => p.kind === 'note' && p.key === 'gap').map((p) => html`<p class="note">${p.text}</p>`)}
    ${turn.rerunOf && html`<${Comparison} turn=${turn} />`}
    <h2>What happened</h2>
    <${Waterfall} turn=${turn} />
    ${turn.segments.length + turn.events.length === 0 && html`<p class="muted">Its events are not kept any more, or nothing has happened yet.</p>`}
    <${Events} turn=${turn} />
    ${over(turn) && !turn.rerunOf && turn.result?.output && html`<h2>Answer</h2><div class="answer"><${Prose} text=${turn.result.output} epoch=${0} done=${true} sources=${turn.sources} /><${Sources} sources=${turn.sources} /></div>`}
    ${over(turn) && html`<${Reruns} id=${id} />`}`}
  </section>`;
}

function startOf(turn) {
  const at = turn.listed?.started_at ?? (turn.startedAt ? new Date(turn.startedAt).toISOString() : '');
  return at && html`<time datetime=${at} title=${exactMoment(at)}>${moment(at)}</time>`;
}
