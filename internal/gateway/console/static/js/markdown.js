// Markdown of a model as elements. The text is hostile: HTML in it is shown as text, links go to http, https and mailto only, pictures
// never load from elsewhere; and what marked makes of it passes DOMPurify before it is in the page.
import { Marked } from '../lib/marked.js';
import '../lib/purify.js';
import { highlight } from './code.js';

const purify = globalThis.DOMPurify;

const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (s) => String(s ?? '').replace(/[&<>"']/g, (c) => escapes[c]);

const marked = new Marked({ gfm: true, breaks: false, async: false });
marked.use({
  renderer: {
    html: (token) => escaped(token.text ?? token.raw),
    image: (token) => `<a href="${escaped(token.href)}" title="image">${escaped(token.text || 'image')}</a>`,
    code: (token) => `<pre><code class="language-${escaped(word(token.lang))}">${escaped(token.text)}</code></pre>`,
    checkbox: (token) => (token.checked ? '☑ ' : '☐ '),
  },
});

const word = (lang) => /^[\w+#.-]*/.exec(lang ?? '')[0].slice(0, 40);

const rules = {
  ALLOWED_TAGS: [
    'p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6',
    'table', 'thead', 'tbody', 'tr', 'th', 'td',
  ],
  ALLOWED_ATTR: ['href', 'class', 'align', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOW_UNKNOWN_PROTOCOLS: false,
  KEEP_CONTENT: true,
  RETURN_DOM_FRAGMENT: true,
};

// The longest text that is read as Markdown in one go; the splitter makes none that is longer. What takes too deep a breath is shown as it is.
const longest = 48 << 10;

// markdown returns a fragment for a piece of Markdown.
export function markdown(text) {
  if (text.length > longest) return plain(text);
  let fragment;
  try {
    fragment = purify.sanitize(marked.parse(text), rules);
  } catch {
    return plain(text); // nested deeper than anybody reads
  }
  for (const a of fragment.querySelectorAll('a')) secure(a);
  for (const e of fragment.querySelectorAll('[class]')) {
    if (e.localName !== 'code' || !/^language-[\w+#.-]+$/.test(e.className)) e.removeAttribute('class');
  }
  for (const pre of fragment.querySelectorAll('pre')) {
    const code = pre.querySelector('code');
    pre.replaceWith(codeBlock(pre.textContent.replace(/\n$/, ''), code?.className.replace(/^language-/, '') ?? '').root);
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = element('div', 'table');
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', 'Table');
    table.replaceWith(box);
    box.append(table);
  }
  return fragment;
}

function plain(text) {
  const p = element('p', 'plain');
  p.textContent = text;
  const fragment = new DocumentFragment();
  fragment.append(p);
  return fragment;
}

function secure(a) {
  const to = safeURL(a.getAttribute('href'));
  if (!to) {
    a.replaceWith(...a.childNodes);
    return;
  }
  a.href = to.href;
  a.target = '_blank';
  a.rel = 'noopener noreferrer nofollow';
  a.title = to.href.length > 200 ? to.href.slice(0, 200) + '…' : to.href; // where it leads, whatever the text says
}

// safeURL returns a link's address where it may be followed, else null.
export function safeURL(href) {
  let to;
  try {
    to = new URL(href);
  } catch {
    return null;
  }
  return ['http:', 'https:', 'mailto:'].includes(to.protocol) && !to.username && !to.password ? to : null;
}

export function element(name, className) {
  const e = document.createElement(name);
  if (className) e.className = className;
  return e;
}

// codeBlock is a block of code with its language and a button that copies it. write replaces its text, grow adds to it.
export function codeBlock(text, lang, open = false) {
  const root = element('figure', 'code');
  const head = element('figcaption');
  const name = element('span', 'lang');
  name.textContent = lang || 'text';
  const copy = element('button', 'copy');
  copy.type = 'button';
  copy.textContent = 'Copy';
  const pre = element('pre');
  pre.tabIndex = 0;
  const code = element('code');
  const node = document.createTextNode(text);
  code.append(node);
  pre.append(code);
  head.append(name, copy);
  root.append(head, pre);
  copy.addEventListener('click', () => copied(copy, code.textContent));
  const block = {
    root,
    grow: (more) => node.appendData(more),
    finish: () => highlight(code, lang),
  };
  if (!open) block.finish();
  return block;
}

// copied puts text into the clipboard and says so on the button. A page that came over plain HTTP has no clipboard.
export async function copied(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not allowed here';
  }
  setTimeout(() => (button.textContent = label), 1500);
}
