// The icons, as strokes of 24 by 24.
import { html } from './html.js';

const paths = {
  plus: 'M12 5v14M5 12h14',
  chat: 'M4 5h16v11H9l-5 4z',
  hand: 'M9 11V5.5a1.5 1.5 0 0 1 3 0V11m0-1V4.5a1.5 1.5 0 0 1 3 0V11m0-.5V6a1.5 1.5 0 0 1 3 0v8.5A6.5 6.5 0 0 1 11.5 21c-3 0-4.3-1.7-5.5-4l-2-4a1.5 1.5 0 0 1 2.6-1.5L9 14V8.5',
  route: 'M6 4v5a4 4 0 0 0 4 4h4a4 4 0 0 1 4 4v3M6 4 3.5 6.5M6 4l2.5 2.5M18 20l-2.5-2.5M18 20l2.5-2.5',
  book: 'M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11',
  send: 'M12 20V5m0 0-6 6m6-6 6 6',
  stop: 'M7 7h10v10H7z',
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6 6 18',
  external: 'M14 5h5v5M19 5l-8 8M18 14v5H5V6h5',
  clock: 'M12 7v5l3.5 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2m0 16v2M4.9 4.9l1.4 1.4m11.4 11.4 1.4 1.4M2 12h2m16 0h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
  moon: 'M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z',
  auto: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 0v18',
  tool: 'M13.5 8.5 5 17a2.1 2.1 0 0 0 3 3l8.5-8.5a4.5 4.5 0 0 0 5-6L18.5 8.5 15.5 5.5 18.5 2.5a4.5 4.5 0 0 0-5 6z',
  check: 'M5 12.5 10 17.5 19.5 7',
  down: 'M6 9l6 6 6-6',
  key: 'M14.5 4a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM10.5 13.5 4 20m3-3 2.5 2.5',
  pencil: 'M5 19l1-4L16.5 4.5a2.1 2.1 0 0 1 3 3L9 18zM14.5 6.5l3 3',
  list: 'M9 6h11M9 12h11M9 18h11M4.5 6h.01M4.5 12h.01M4.5 18h.01',
  chart: 'M4 20h16M7 16v-5M12 16V6M17 16v-8',
  flow: 'M4 4h6v5H4zM14 15h6v5h-6zM7 9v5a3 3 0 0 0 3 3h4',
  eye: 'M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6z',
  again: 'M20 12a8 8 0 1 1-2.4-5.7M20 4v4.5h-4.5',
  fork: 'M7 4v16M7 14c0-5 10-2 10-8M14 8l3-3 3 3',
  file: 'M7 3h7l4 4v14H7zM14 3v4h4',
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${paths[name]} /></svg>`;
