// Cutting a growing Markdown text into pieces that do not change any more, so that only the tail is read again when something is added.

// A piece of text that is longer than this is cut at the next line, or word: reading Markdown takes longer than its length.
const long = 12 << 10;

// A fence opens a block of code where it is not indented; inside lists it belongs to the list.
const fence = /^(`{3,}|~{3,})([^`]*)$/;
const listItem = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;

// Splitter finds the pieces. next(text) returns {from, to, kind, lang} of the next piece that is whole, or null; text only ever grows, and
// done says that it does not any more. What is behind start is the tail: text, or the code of a block that is open.
export class Splitter {
  constructor() {
    this.start = 0; // of the piece that is not whole
    this.scan = 0; // of the first line that was not looked at
    this.blank = false; // a blank line was the last
    this.list = false; // the piece begins with an item of a list
    this.code = null; // the fence that is open: {mark, lang, body}
  }

  next(text, done) {
    for (;;) {
      const end = text.indexOf('\n', this.scan);
      if (end < 0) break;
      const line = text.slice(this.scan, Math.min(end, this.scan + 400)).replace(/\r$/, '');
      const piece = this.line(text, line, end + 1);
      if (piece) return piece;
    }
    if (!this.code && text.length - this.start > 2 * long) {
      const cut = text.lastIndexOf(' ', this.start + long);
      return this.cut(cut > this.start ? cut + 1 : this.start + long);
    }
    if (!done || this.start >= text.length) return null;
    this.scan = text.length;
    if (this.code) {
      const rest = text.slice(text.lastIndexOf('\n') + 1);
      return this.closes(rest) ? this.codePiece(text.length - rest.length, text.length) : this.codePiece(text.length, text.length);
    }
    return this.cut(text.length);
  }

  line(text, line, next) {
    const at = this.scan;
    if (this.code) {
      this.scan = next;
      return this.closes(line) ? this.codePiece(at, next) : null;
    }
    if (line.trim() === '') {
      this.scan = next;
      this.blank = true;
      return null;
    }
    const open = fence.exec(line);
    if (open && at > this.start) return this.cut(at); // what was before the code is whole
    if (open) {
      this.code = { mark: open[1], lang: /^\s*([\w+#.-]*)/.exec(open[2])[1].toLowerCase(), body: next };
      this.scan = next;
      return null;
    }
    const fresh = this.blank && at > this.start && !/^\s/.test(line) && !(this.list && listItem.test(line));
    if (fresh || at - this.start > long) return this.cut(at);
    if (at === this.start || text.slice(this.start, at).trim() === '') this.list = listItem.test(line);
    this.blank = false;
    this.scan = next;
    return null;
  }

  closes(line) {
    const m = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line);
    return Boolean(m) && m[1][0] === this.code.mark[0] && m[1].length >= this.code.mark.length;
  }

  cut(to) {
    const piece = { kind: 'text', from: this.start, to, lang: '' };
    this.begin(to);
    return piece;
  }

  codePiece(to, next) {
    const piece = { kind: 'code', from: Math.min(this.code.body, to), to, lang: this.code.lang };
    this.code = null;
    this.begin(next);
    return piece;
  }

  begin(at) {
    this.start = this.scan = at;
    this.blank = this.list = false;
  }

  // tail is what is not whole, for the meantime.
  tail(text) {
    if (this.code) {
      const last = Math.max(text.lastIndexOf('\n') + 1, this.code.body);
      const to = /^ {0,3}(?:`+|~+)?\s*$/.test(text.slice(last, last + 100)) ? last : text.length; // it may become the closing fence
      return { kind: 'code', from: this.code.body, to, lang: this.code.lang };
    }
    return { kind: 'text', from: this.start, to: text.length, lang: '' };
  }
}
