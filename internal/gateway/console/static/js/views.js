// The views that are lists, each with the pages behind its rows.
import { html, useEffect } from './html.js';
import { state, go, link } from './store.js';
import { ListView, DetailView, Rows } from './list.js';
import { Tabs } from './approvals.js';
import { TurnPage } from './turnpage.js';
import * as lists from './lists.js';

const titled = (title) => useEffect(() => void (document.title = title + ' · Turnstone'), [title]);

function view(title, list, detail) {
  return () => {
    const [name] = state.route.args;
    titled(name ? name + ' · ' + title : title);
    return name ? detail(name) : list();
  };
}

const workflowTabs = (at) => html`<${Tabs} all=${['workflows', 'runs']} at=${at} onPick=${(t) => go(t)} />`;

export const Turns = view('Turns', () => html`<${ListView} spec=${lists.turns} />`, (id) => html`<${TurnPage} key=${id} id=${id} />`);
export const Audit = view('Audit', () => html`<${ListView} spec=${lists.audit} />`, () => html`<${ListView} spec=${lists.audit} />`);
export const Workflows = view('Workflows', () => html`<${ListView} spec=${lists.workflows} tabs=${workflowTabs('workflows')} />`,
  (tag) => html`<${DetailView} key=${tag} spec=${lists.workflow} name=${tag} />`);
export const Runs = view('Runs', () => html`<${ListView} spec=${lists.runs} tabs=${workflowTabs('runs')} />`, (id) => html`<${DetailView} key=${id} spec=${lists.run} name=${id} />`);
export const Schedules = view('Schedules', () => html`<${ListView} spec=${lists.schedules} />`, (name) => html`<${DetailView} key=${name} spec=${lists.schedule} name=${name} />`);
export const Knowledge = view('Knowledge', () => html`<${ListView} spec=${lists.collections()} />`, (name) => html`<section class="page wide">
  <header><p class="crumb"><a href=${link('knowledge')}>Knowledge</a></p><h1 class="wrap">${name}</h1></header><${Rows} key=${name} spec=${lists.documents(name)} /></section>`);
