// What the page asks for when it begins, when another credential is given, and now and then.
import { state, changed } from './store.js';
import { call, open, credential, words, Failure } from './api.js';
import { closeAll } from './session.js';

const every = 5000; // between two looks at the server's health
const away = 2000; // the same while it cannot be reached
const counting = 20000; // between two counts of what waits
const patience = 8000; // for an answer about health

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

export async function loadAgents() {
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

let looking = false;
let counted = 0;

// look asks what changes by itself: health, and how many approvals wait.
async function look() {
  if (looking) return;
  if (state.asking !== null) {
    lookLater();
    return;
  }
  looking = true;
  const was = state.reachable;
  try {
    const response = await open('health', { signal: AbortSignal.timeout(patience) });
    state.health = await response.json();
    state.reachable = true;
  } catch {
    state.health = null;
    state.reachable = false;
  }
  looking = false;
  lookLater();
  if (state.reachable && !was) comeBack();
  if (state.reachable && Date.now() - counted >= counting) await countPending();
  changed();
}

// comeBack lets everything that waits for the server try again at once.
function comeBack() {
  state.comebacks++;
  counted = 0;
  document.dispatchEvent(new Event('turnstone:back'));
  if (!state.principal) start();
}

export async function countPending() {
  counted = Date.now();
  try {
    const page = await call('v1/approvals?state=pending&page_size=100');
    state.pendingCount = page.approvals.length;
  } catch {
    state.pendingCount = 0;
  }
  changed();
}

let timer = 0;

function lookLater() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (!document.hidden && state.principal) await look();
    else lookLater();
  }, state.reachable ? every : away);
}

// keepLooking looks every few seconds, sooner while the server is away, and not at all while the page cannot be seen.
export function keepLooking() {
  lookLater();
  document.addEventListener('visibilitychange', () => !document.hidden && state.principal && look());
  document.addEventListener('turnstone:lost', () => state.principal && state.reachable && look());
  document.addEventListener('turnstone:pending', () => state.principal && countPending());
}
