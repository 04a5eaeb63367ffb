// Dark, light, or as the system has it.
import { changed } from './store.js';

const key = 'turnstone.theme';
const all = ['auto', 'light', 'dark'];

export function theme() {
  const t = localStorage.getItem(key);
  return all.includes(t) ? t : 'auto';
}

export function applyTheme() {
  const t = theme();
  if (t === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
}

export function nextTheme() {
  localStorage.setItem(key, all[(all.indexOf(theme()) + 1) % all.length]);
  applyTheme();
  changed();
}
