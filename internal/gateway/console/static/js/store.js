// The one store of the page. Whoever changes something calls changed(); the page is drawn once per frame, however much changed.
import { useState, useEffect } from './html.js';

export const state = {
  config: { auth: false, ui_url: '', namespace: '' },
  principal: null, // who looks, as the server says
  asking: null, // why a credential is wanted; null: none is
  agents: null, // [] once they are loaded
  agentsError: '',
  health: null,
  pendingCount: 0,
  route: { view: 'chat', args: [] },
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

// The place of the page is in its address behind the #, so that it can be reloaded, kept and sent.
export function readRoute() {
  const [view, ...args] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  const known = ['chat', 'approvals', 'routes', 'catalog'];
  state.route = { view: known.includes(view) ? view : 'chat', args };
  changed();
}

export const link = (...parts) => '#/' + parts.filter((p) => p !== '' && p != null).map(encodeURIComponent).join('/');

export function go(...parts) {
  const to = link(...parts);
  if (location.hash === to) readRoute();
  else location.hash = to;
}

// replace changes the address without a step in the history.
export function replace(...parts) {
  history.replaceState(null, '', link(...parts));
  readRoute();
}
