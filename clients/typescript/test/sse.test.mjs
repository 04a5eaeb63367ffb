import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser } from '../lib/sse.js';

const stream = ': a comment\r\nretry: 1000\r\n\r\nid: 1\r\nevent: token\r\ndata: {"text":"żółć 🦉\u2028"}\r\n\r\n' +
  'data: two\ndata:  lines\n\n:\n\ndata:carriage returns\r\rdata\nnot data: x\n\ndata: unfinished\n';

test('events are the same however the stream is cut', () => {
  const bytes = new TextEncoder().encode(stream);
  for (let size = 1; size <= bytes.length; size++) {
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const events = [];
    for (let at = 0; at < bytes.length; at += size) {
      events.push(...parser.push(decoder.decode(bytes.subarray(at, at + size), { stream: true })));
    }
    assert.deepEqual(events, ['{"text":"żółć 🦉\u2028"}', 'two\n lines', 'carriage returns', ''], `pieces of ${size} bytes`);
  }
});
