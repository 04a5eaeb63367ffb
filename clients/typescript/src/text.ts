import type { Event } from './types.js';

/** Folds the events of a turn into the text to show so far. */
export class Text {
  #tokens: Event[] = [];

  /** Takes the next event: a token adds its text, a reset drops what its producer wrote from an index on. */
  add(event: Event): this {
    if (event.type === 'token') {
      this.#tokens.push(event);
    } else if (event.type === 'reset') {
      const { producer = '', from_index = 0 } = event;
      this.#tokens = this.#tokens.filter(({ meta }) => (meta.producer ?? '') !== producer || meta.event_index < from_index);
    }
    return this;
  }

  toString(): string {
    return this.#tokens.map(({ text }) => text).join('');
  }
}
