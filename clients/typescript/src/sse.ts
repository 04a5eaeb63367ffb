/** Turns the text of a stream of server-sent events, as it comes, into the data of its events. */
export class EventParser {
  #rest = '';
  #data: string[] = [];

  /** Takes the next piece of text and returns the data of each event that it completes. Comments, names and ids are left out. */
  push(text: string): string[] {
    // A carriage return at the end waits: a line feed may follow, and the two are one line break.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const complete: string[] = [];
    for (const line of lines) {
      if (line === '' && this.#data.length > 0) {
        complete.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line === 'data' || line.startsWith('data:')) {
        this.#data.push(line.slice(5).replace(/^ /, ''));
      }
    }
    return complete;
  }
}
