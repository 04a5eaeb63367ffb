// What the page asks for when it begins, when another credential is given, and now and then.
import { state, changed } from './store.js';
import { call, open, credential, words, Failure } from './api.js';
import { closeAll } from './session.js';

const every = 20000;

export async function restart() {
  closeAll();
  state.principal = state.agents = null;
  state.agentsError = '';
  changed();
  await start();
}

let starting = 0;

export async function start() {
  const mine = ++starting;
  credential.onWanted((why) => {
    state.asking = why;
    changed();
  });
  try {
    const principal = await call('v1/whoami');
    if (mine !== starting) return;
    state.principal = principal;
    state.config = await call('console/config.json');
  } catch (err) {
    if (mine !== starting) return;
    state.agentsError = words(err);
    changed();
    setTimeout(() => mine === starting && start(), 5000);
    return;
  }
  changed();
  loadAgents();
  look();
}

async function loadAgents() {
  try {
    const page = await call('v1/agents?page_size=200');
    state.agents = page.agents;
    state.agentsError = '';
  } catch (err) {
    state.agents = [];
    state.agentsError = err instanceof Failure && err.status === 403 ? '' : words(err);
  }
  changed();
}

// look asks what changes by itself: health, and how many approvals wait.
async function look() {
  if (state.asking !== null) return;
  try {
    const response = await open('health');
    state.health = await response.json();
  } catch {
    state.health = null;
  }
  await countPending();
  changed();
}

export async function countPending() {
  try {
    const page = await call('v1/approvals?state=pending&page_size=100');
    state.pendingCount = page.approvals.length;
  } catch {
    state.pendingCount = 0;
  }
  changed();
}

export function keepLooking() {
  setInterval(() => {
    if (!document.hidden && state.principal) look();
  }, every);
  document.addEventListener('visibilitychange', () => !document.hidden && state.principal && look());
  document.addEventListener('turnstone:pending', () => state.principal && countPending());
}
