// The titles that this browser gave conversations, and the conversations that it began itself, for each credential apart. The list of all
// conversations and their messages are the server's.
import { state, changed } from './store.js';

const most = 200;
const longestSaid = 4000;
const longestTitle = 120;

let loaded = { key: '', list: [] };

function key() {
  const p = state.principal ?? {};
  return ['turnstone.conversations', p.tenant ?? '', p.subject || p.credential || ''].join('/');
}

export function conversations() {
  if (loaded.key !== key()) {
    loaded = { key: key(), list: [] };
    try {
      const list = JSON.parse(localStorage.getItem(loaded.key) ?? '[]');
      if (Array.isArray(list)) loaded.list = list.filter((c) => typeof c?.id === 'string').slice(0, most);
    } catch {
      // not ours: begin anew
    }
  }
  return loaded.list;
}

function save() {
  try {
    localStorage.setItem(loaded.key, JSON.stringify(loaded.list));
  } catch {
    loaded.list.length = Math.floor(loaded.list.length / 2); // no room: the older half is let go
  }
  changed();
}

// remember puts a conversation at the top.
export function remember(id, facts) {
  const list = conversations();
  const known = list.find((c) => c.id === id);
  const entry = { id, title: '', ...known, ...facts, at: Date.now() };
  if (entry.said) entry.said = entry.said.slice(0, longestSaid);
  loaded.list = [entry, ...list.filter((c) => c.id !== id)].slice(0, most);
  save();
}

// rename gives a conversation a title of this browser; an empty one takes it away.
export function rename(id, title) {
  remember(id, { title: title.trim().slice(0, longestTitle) });
}

export const conversation = (id) => conversations().find((c) => c.id === id);

export function titleOf(text) {
  const line = text.trim().split('\n')[0];
  return line.length > 60 ? line.slice(0, 59).trimEnd() + '…' : line;
}
