// The titles of conversations, and the conversations that this browser began itself, for each credential apart. The titles, the list of all
// conversations and their messages are the server's.
import { state, changed } from './store.js';
import { call, segment } from './api.js';

const most = 200;
const longestSaid = 4000;

let loaded = { key: '', list: [], titles: new Map() };

function key() {
  const p = state.principal ?? {};
  return ['turnstone.conversations', p.tenant ?? '', p.subject || p.credential || ''].join('/');
}

export function conversations() {
  if (loaded.key !== key()) {
    loaded = { key: key(), list: [], titles: new Map() };
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
  const said = facts.said.slice(0, longestSaid);
  const entry = { id, turn: facts.turn, said, first: known?.first ?? said, at: Date.now() };
  loaded.list = [entry, ...list.filter((c) => c.id !== id)].slice(0, most);
  save();
}

// givenTitle is the title of a conversation as the server said last; undefined if it has not said.
export const givenTitle = (id) => conversations() && loaded.titles.get(id);

// noteTitles takes over the titles of a page of sessions.
export function noteTitles(sessions) {
  const news = sessions.filter((s) => givenTitle(s.session_id) !== (s.title ?? ''));
  for (const s of news) loaded.titles.set(s.session_id, s.title ?? '');
  if (news.length > 0) changed();
}

// loadTitle asks for the title of a conversation that no list has named. Who may not list sessions does without.
export async function loadTitle(id) {
  if (givenTitle(id) !== undefined) return;
  try {
    noteTitles((await call(`v1/sessions?session=${segment(id)}&limit=1`)).sessions);
  } catch {
    // its first message stands for it
  }
}

// rename gives a conversation a title, for everybody; an empty one takes it away.
export async function rename(id, title) {
  noteTitles([await call('v1/sessions/' + segment(id), { method: 'PATCH', body: { title } })]);
}

export const conversation = (id) => conversations().find((c) => c.id === id);

export function titleOf(text) {
  const line = text.trim().split('\n')[0];
  return line.length > 60 ? line.slice(0, 59).trimEnd() + '…' : line;
}
