// Server-sent events, as the standard says how to read them. EventSource cannot send a credential, so the stream comes by fetch.

// The longest line that is kept: an event of the server is far below it.
const maxLine = 16 << 20;

// SSEParser takes text in pieces of any size and calls onEvent({id, type, data}) for each whole event. An event that the stream broke off
// in is dropped, as the standard wants: it comes again after the resume. lastId and retry are what the stream said of resuming.
export class SSEParser {
  constructor(onEvent, onBeat = () => {}) {
    this.onEvent = onEvent;
    this.onBeat = onBeat;
    this.lastId = '';
    this.retry = null;
    this.rest = '';
    this.first = true;
    this.clear();
  }

  clear() {
    this.type = '';
    this.data = [];
    this.id = null;
  }

  push(text) {
    if (this.first && text.length > 0) {
      this.first = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    const all = this.rest + text;
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = Math.max(this.rest.length - 1, 0); // what is kept has no line end, but for a last carriage return
    let from = 0;
    for (let end; (end = ends.exec(all)); from = ends.lastIndex) {
      // A carriage return at the end may be half of a line end.
      if (end[0] === '\r' && ends.lastIndex === all.length) break;
      this.line(all.slice(from, end.index));
    }
    this.rest = all.slice(from);
    if (this.rest.length > maxLine) throw new Error('the event stream has a line without an end');
  }

  line(line) {
    if (line === '') {
      if (this.id !== null) this.lastId = this.id;
      if (this.data.length > 0) this.onEvent({ id: this.id ?? '', type: this.type || 'message', data: this.data.join('\n') });
      this.clear();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      this.onBeat();
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    switch (field) {
      case 'event':
        this.type = value;
        break;
      case 'data':
        this.data.push(value);
        break;
      case 'id':
        if (!value.includes('\0')) this.id = value;
        break;
      case 'retry':
        if (/^\d+$/.test(value)) this.retry = Math.min(Number(value), 60000);
        break;
    }
  }
}
