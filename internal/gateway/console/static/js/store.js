// The one store of the page. Whoever changes something calls changed(); the page is drawn once per frame, however much changed.
import { useState, useEffect } from './html.js';

export const state = {
  config: { auth: false, ui_url: '', namespace: '' },
  principal: null, // who looks, as the server says
  asking: null, // why a credential is wanted; null: none is
  agents: null, // [] once they are loaded
  agentsError: '',
  health: null, // what the server said last; null: nothing yet, or it cannot be reached
  reachable: true,
  comebacks: 0, // how often the server was away and is back: views load again
  pendingCount: 0,
  route: { view: 'chat', args: [], query: {} },
  drawer: false,
  dialog: null, // {title, body} of a component
  announcement: '', // for screen readers
};

const listeners = new Set();
let frame = 0;

export function changed() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    for (const l of [...listeners]) l();
  });
}

// useStore draws the component again when the store changes.
export function useStore() {
  const [, tick] = useState(0);
  useEffect(() => {
    const l = () => tick((n) => n + 1);
    listeners.add(l);
    return () => listeners.delete(l);
  }, []);
  return state;
}

export function announce(text) {
  state.announcement = text;
  changed();
}

export function show(dialog) {
  state.dialog = dialog;
  changed();
}

// The views of the page by the first word of an address.
const views = ['chat', 'turns', 'approvals', 'usage', 'workflows', 'runs', 'schedules', 'knowledge', 'audit', 'routes', 'catalog'];

// The place of the page is in its address behind the #, so that it can be reloaded, kept and sent: #/turns/ID, #/turns?status=failed.
export function readRoute() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, ...args] = path.split('/').map(decode);
  state.route = { view: views.includes(view) ? view : 'chat', args, query: Object.fromEntries(new URLSearchParams(query)) };
  changed();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody's own percent signs
  }
}

export const link = (...parts) => '#/' + parts.filter((p) => p !== '' && p != null).map(encodeURIComponent).join('/');

// linkWith is a link with a query; values that are empty are left out.
export function linkWith(parts, query) {
  const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== '')).toString();
  return link(...parts) + (text && '?' + text);
}

// go leads to a place: its parts, or a list of them and a query.
export function go(...parts) {
  const to = Array.isArray(parts[0]) ? linkWith(parts[0], parts[1]) : link(...parts);
  if (location.hash === to) readRoute();
  else location.hash = to;
}

// replace changes the address without a step in the history.
export function replace(...parts) {
  history.replaceState(null, '', link(...parts));
  readRoute();
}
