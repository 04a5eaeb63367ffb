// A text that grows, as Markdown: at most once per frame, for some milliseconds of it, and never again what stands already.
import { html, Component } from './html.js';
import { markdown, codeBlock, element } from './markdown.js';
import { Splitter } from './split.js';
import { linkNumbers, numbered } from './citations.js';
import { citation } from './sources.js';

const budget = 8; // milliseconds of a frame
const longTail = 30 << 10; // a tail that is longer is not shown as Markdown before it is whole

class Writer {
  constructor(root) {
    this.root = root;
    this.tail = element('div', 'tail');
    root.append(this.tail);
    this.clear();
  }

  clear() {
    this.root.replaceChildren(this.tail);
    this.tail.replaceChildren();
    this.split = new Splitter();
    this.text = '';
    this.done = false;
    this.epoch = 0;
    this.shown = -1; // how much of the text the tail shows
    this.open = null; // the block of code that grows in the tail
    this.settled = false;
    this.linked = 0; // how many sources the text had when its numbers became links
  }

  update(text, epoch, done, sources) {
    this.sources = sources ?? [];
    if (epoch !== this.epoch || text.length < this.text.length) {
      this.clear();
      this.epoch = epoch;
    }
    if (this.settled && text.length === this.text.length && this.sources.length === this.linked) return;
    this.text = text;
    this.done = done;
    this.settled = false;
    this.schedule();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.work();
    });
  }

  work() {
    const until = performance.now() + budget;
    for (;;) {
      const piece = this.split.next(this.text, this.done);
      if (!piece) break;
      this.put(piece);
      if (performance.now() > until) {
        this.schedule();
        return;
      }
    }
    this.showTail();
    this.settled = this.done && this.split.start >= this.text.length;
    if (this.settled && this.sources.length > this.linked) {
      linkNumbers(this.root, numbered(this.sources), citation);
      this.linked = this.sources.length;
    }
  }

  put(piece) {
    const chunk = element('div', 'chunk');
    if (piece.kind === 'code' && this.open && this.open.from === piece.from) {
      this.growCode(piece.to);
      this.open.block.finish();
      chunk.append(this.open.block.root);
    } else if (piece.kind === 'code') {
      chunk.append(codeBlock(this.text.slice(piece.from, piece.to).replace(/\n$/, ''), piece.lang).root);
    } else {
      const text = this.text.slice(piece.from, piece.to);
      if (text.trim() === '') return;
      chunk.append(markdown(text));
    }
    this.open = null;
    this.tail.replaceChildren();
    this.shown = -1;
    this.root.insertBefore(chunk, this.tail);
  }

  showTail() {
    const tail = this.split.tail(this.text);
    if (tail.to === this.shown) return;
    this.shown = tail.to;
    if (tail.kind === 'code') {
      if (!this.open || this.open.from !== tail.from) {
        this.open = { from: tail.from, at: tail.from, block: codeBlock('', tail.lang, true) };
        this.tail.replaceChildren(this.open.block.root);
      }
      this.growCode(tail.to);
      return;
    }
    this.open = null;
    const text = this.text.slice(tail.from, tail.to);
    if (text.length > longTail) this.tail.textContent = text;
    else this.tail.replaceChildren(markdown(text));
  }

  growCode(to) {
    // The last line end is kept back: it may be the one before the closing fence.
    while (to > this.open.at && this.text[to - 1] === '\n') to--;
    if (to <= this.open.at) return;
    this.open.block.grow(this.text.slice(this.open.at, to));
    this.open.at = to;
  }

  stop() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
  }
}

// Prose shows text that may still grow. epoch changes when something of it was taken back. Numbers in it that have a source are links.
export class Prose extends Component {
  shouldComponentUpdate(next) {
    this.writer?.update(next.text, next.epoch ?? 0, next.done, next.sources);
    return false;
  }

  componentDidMount() {
    this.writer = new Writer(this.base);
    this.writer.update(this.props.text, this.props.epoch ?? 0, this.props.done, this.props.sources);
  }

  componentWillUnmount() {
    this.writer?.stop();
  }

  render() {
    return html`<div class="prose"></div>`;
  }
}
