// Content blocks other than text: what a model or a tool shows. Nothing here is loaded from elsewhere, and nothing runs.
import { html, useEffect, useMemo, useState } from './html.js';
import { safeURL } from './markdown.js';
import { Prose } from './prose.js';
import { Icon } from './icons.js';
import { pretty, count } from './format.js';
import { Json } from './json.js';

const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/bmp'];
const mostBytes = 24 << 20;

// bytesOf decodes base64; null where it is none, or too much.
function bytesOf(base64) {
  if (!base64 || base64.length > (mostBytes * 4) / 3) return null;
  try {
    return Uint8Array.from(atob(base64.replace(/\s/g, '')), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

// useBlob is an address of bytes for as long as the component lives. Their type is one that no browser runs.
function useBlob(bytes, type) {
  const url = useMemo(() => (bytes ? URL.createObjectURL(new Blob([bytes], { type })) : ''), [bytes, type]);
  useEffect(() => () => url && URL.revokeObjectURL(url), [url]);
  return url;
}

function Media({ block }) {
  const mime = (block.mime_type ?? '').toLowerCase().split(';')[0].trim();
  const bytes = useMemo(() => bytesOf(block.base64), [block.base64]);
  const audio = block.type === 'audio' && /^audio\/[\w.+-]+$/.test(mime);
  const picture = block.type === 'image' && pictures.includes(mime);
  const url = useBlob(bytes, picture || audio ? mime : 'application/octet-stream');
  const [broken, setBroken] = useState(false);
  const alt = block.extras?.alt ?? block.extras?.title ?? '';
  if (url && picture && !broken) return html`<img class="media" src=${url} alt=${alt || 'Image of the model'} onError=${() => setBroken(true)} />`;
  if (url && audio) return html`<audio class="media" controls preload="metadata" src=${url}></audio>`;
  if (url) return html`<a class="file" href=${url} download=${fileName(block, mime)}><${Icon} name="file" /> ${fileName(block, mime)} <small>${count(bytes.length)} bytes</small></a>`;
  const to = safeURL(block.url);
  if (to && to.protocol !== 'mailto:') {
    return html`<a class="file" href=${to.href} target="_blank" rel="noopener noreferrer nofollow" title=${to.href}><${Icon} name="external" /> ${block.type} at ${to.host}</a>`;
  }
  return html`<p class="muted">[${block.type}${mime && ' ' + mime}${block.file_id ? ', file ' + block.file_id : ''}: cannot be shown]</p>`;
}

function fileName(block, mime) {
  const name = String(block.extras?.filename ?? block.extras?.name ?? '').replace(/[^\w .()-]/g, '_').slice(0, 80);
  return name || `${block.type}.${(/\/([\w]+)/.exec(mime) ?? [])[1] ?? 'bin'}`;
}

export function Block({ block }) {
  switch (block.type) {
    case 'image':
    case 'audio':
    case 'file':
      return html`<${Media} block=${block} />`;
    case 'server_tool_call':
      return html`<${Fold} label=${'The provider ran ' + (block.name || 'a tool')}><${Json} value=${block.args} /><//>`;
    case 'server_tool_result':
      return html`<${Fold} label="Its result"><${Json} value=${block.output} /><//>`;
    case 'invalid_tool_call':
      return html`<${Fold} label=${'A call that could not be read: ' + (block.name || 'unnamed')}><p>${block.error}</p><pre class="raw">${pretty(block.args)}</pre><//>`;
    default:
      return html`<${Fold} label=${'Content of the provider (' + String(block.type).slice(0, 40) + ')'}><${Json} value=${block.value ?? block} /><//>`;
  }
}

function Fold({ label, children }) {
  return html`<details class="fold"><summary>${label}</summary>${children}</details>`;
}

// Reasoning is folded: it is for whoever wants to know.
export function Reasoning({ part, done }) {
  const [open, setOpen] = useState(false);
  return html`<details class="fold reasoning" open=${open} onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>${done ? 'Reasoning' : html`<span class="working">Reasoning…</span>`} <small>${count(part.text.length)} characters</small></summary>
    ${open && html`<${Prose} text=${part.text} epoch=${part.epoch} done=${done} />`}
  </details>`;
}
