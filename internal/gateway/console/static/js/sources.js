// The sources of an answer, and the numbers in its text that lead to them.
import { html } from './html.js';
import { element, safeURL } from './markdown.js';
import { numbered } from './citations.js';

// Sources lists what an answer rests on, under the numbers that its text has.
export function Sources({ sources }) {
  if (sources.length === 0) return null;
  return html`<details class="fold sources" open=${sources.length <= 4}>
    <summary>${sources.length === 1 ? '1 source' : sources.length + ' sources'}</summary>
    <ol>${numbered(sources).slice(0, 100).map((s) => {
      const to = safeURL(s.url);
      const name = s.title || s.url || 'untitled';
      return html`<li key=${s.number} value=${s.number} data-source=${s.number} tabindex="-1">
        ${to ? html`<a href=${to.href} target="_blank" rel="noopener noreferrer nofollow" title=${to.href}>${name}</a>` : html`<span>${name}</span>`}
        ${s.quote && html`<blockquote>${s.quote.slice(0, 400)}</blockquote>`}
      </li>`;
    })}</ol>
  </details>`;
}

// citation returns the link of a number in the text: to the source's address, or to its place in the list of sources.
export function citation(source) {
  const to = safeURL(source.url);
  const e = element(to ? 'a' : 'button', 'cite');
  e.textContent = source.number;
  e.title = source.title || source.url;
  e.setAttribute('aria-label', `Source ${source.number}: ${e.title}`);
  if (to) Object.assign(e, { href: to.href, target: '_blank', rel: 'noopener noreferrer nofollow' });
  else {
    e.type = 'button';
    e.addEventListener('click', () => showSource(e, source.number));
  }
  return e;
}

function showSource(from, number) {
  const item = from.closest('.answer')?.querySelector(`[data-source="${number}"]`);
  if (!item) return;
  item.closest('details').open = true;
  item.scrollIntoView({ block: 'nearest' });
  item.focus();
}
