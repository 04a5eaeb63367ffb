// Tests of the modules that need no page: run(base) returns what is wrong.
async (base) => {
  const wrong = [];
  let name = '';
  const test = async (n, f) => {
    name = n;
    try {
      await f();
    } catch (err) {
      wrong.push(name + ': ' + (err.stack ?? err));
    }
  };
  const text = (v) => JSON.stringify(v);
  const same = (got, want) => {
    if (text(got) !== text(want)) wrong.push(`${name}: got ${text(got)}, want ${text(want)}`);
  };
  const load = (file) => import(new URL(base + 'js/' + file, document.baseURI));
  const { SSEParser } = await load('sse.js');
  const { Splitter } = await load('split.js');
  const { newTurn, apply, finish, over, pause, pending } = await load('turn.js');
  const { yaml } = await load('yaml.js');
  const { requestOf } = await load('routes.js');
  const { fromTranscript } = await load('transcript.js');
  const { markdown, safeURL } = await load('markdown.js');
  const { check, reason } = await load('approval.js');
  const { addSources, numbered } = await load('citations.js');
  const { changes, folded, lines } = await load('diff.js');
  const { textOf, withBefore } = await load('documents.js');
  const { calledTools } = await load('compare.js');
  const { may } = await load('rights.js');
  const { state } = await load('store.js');
  const { poll } = await load('load.js');
  const { daysOf, seriesOf } = await load('usage.js');
  const { ticksOf } = await load('chart.js');
  const { spans } = await load('waterfall.js');
  const format = await load('format.js');
  const { parse } = await load('exact.js');
  const { summary } = await load('sidebar.js');

  // Server-sent events: the same events, however the text is cut.
  const stream = '\ufeffretry: 1500\n\nid: 1\nevent: token\ndata: {"a":1}\n\n:\n\nid:2\ndata:x\ndata: y\n\nid\r\ndata\r\n\r\nevent: lost\ndata: half\rdata: more\r\rid: 9\0\nunknown: z\ndata: é€😀\n\nid: 7\ndata: cut off';
  const events = [
    ['1', 'token', '{"a":1}'], ['2', 'message', 'x\ny'], ['', 'message', ''], ['', 'lost', 'half\nmore'], ['', 'message', 'é€😀'],
  ];
  const parsed = (pieces) => {
    const got = [];
    let beats = 0;
    const p = new SSEParser((e) => got.push([e.id, e.type, e.data]), () => beats++);
    for (const piece of pieces) p.push(piece);
    return [got, beats, p.retry, p.lastId];
  };
  await test('sse whole', () => same(parsed([stream]), [events, 1, 1500, '']));
  await test('sse by characters', () => same(parsed([...stream]), [events, 1, 1500, '']));
  await test('sse by code units', () => same(parsed(stream.split('')), [events, 1, 1500, '']));
  for (let n = 2; n < 40; n++) {
    await test('sse by ' + n, () => same(parsed(stream.match(new RegExp(`[^]{1,${n}}`, 'g'))), [events, 1, 1500, '']));
  }
  await test('sse bounded', () => {
    const p = new SSEParser(() => {});
    let refused = false;
    try {
      for (let i = 0; i < 40; i++) p.push('x'.repeat(1 << 20));
    } catch {
      refused = true;
    }
    same(refused, true);
  });

  // Pieces of Markdown: nothing is lost or repeated, also when the text comes by characters.
  const pieces = (all, step) => {
    const s = new Splitter();
    const out = [];
    for (let n = Math.min(step, all.length); ; n = Math.min(n + step, all.length)) {
      const now = all.slice(0, n);
      for (let p; (p = s.next(now, n === all.length)); ) out.push([p.kind, p.lang, now.slice(p.from, p.to)]);
      const tail = s.tail(now);
      if (tail.from > tail.to || tail.to > now.length) throw new Error('tail ' + text(tail));
      if (n === all.length) return out;
    }
  };
  const doc = 'One\ntwo\n\n# Three\n\n- a\n\n- b\n\n  still b\n\n1. c\n\nafter\n```go title\nfunc main() {\n\n}\n```\nbehind\n\n~~~\n```\n~~~\n> quote\n\n    indented\n\nend';
  const want = [
    ['text', '', 'One\ntwo\n\n'], ['text', '', '# Three\n\n'], ['text', '', '- a\n\n- b\n\n  still b\n\n1. c\n\n'], ['text', '', 'after\n'],
    ['code', 'go', 'func main() {\n\n}\n'], ['text', '', 'behind\n\n'], ['code', '', '```\n'], ['text', '', '> quote\n\n    indented\n\nend'],
  ];
  for (const step of [1, 2, 3, 5, 7, 50, 1000]) await test('split by ' + step, () => same(pieces(doc, step), want));
  await test('split open code', () => same(pieces('a\n```js\nlet x', 4), [['text', '', 'a\n'], ['code', 'js', 'let x']]));
  await test('split empty code', () => same(pieces('```\n```', 1), [['code', '', '']]));
  await test('split fence alone', () => same(pieces('```', 1), [['text', '', '```']]));
  await test('split long', () => {
    const long = 'word '.repeat(40000);
    const got = pieces(long, 9000);
    same(got.map((p) => p[2]).join('') === long, true);
    same(got.every((p) => p[2].length <= 25 << 10), true);
  });

  // Turns.
  let index = 0;
  const e = (type, more = {}, producer = 'model/1') => ({ meta: { event_index: ++index, producer, time: new Date(1e12 + index * 100).toISOString() }, type, ...more });
  const words = (t, kind = 'text') => t.parts.filter((p) => p.kind === kind).map((p) => p.text);
  await test('turn', () => {
    index = 0;
    const t = newTurn('t1', 'hi');
    const all = [
      e('status', { status: 'RUNNING' }), e('route', { route: { agent: 'analyst', reason: 'default' } }),
      e('content', { content_blocks: [{ type: 'reasoning', reasoning: 'let me ' }] }), e('content', { content_blocks: [{ type: 'reasoning', reasoning: 'think' }] }),
      e('token', { text: 'I ' }), e('token', { text: 'look' }), e('usage', { model: 'm', usage: { input_tokens: 10, output_tokens: 2, unpriced: true } }),
      e('tool_start', { tool_call_id: 'c1', tool_name: 'find', input: { q: 1 } }, 'tool/c1'), e('tool_progress', { tool_call_id: 'c1', text: 'half' }, 'tool/c1'),
      e('tool_end', { tool_call_id: 'c1', output: [1], ref: 'cas://x' }, 'tool/c1'), e('token', { text: 'Found.' }, 'model/2'),
      e('usage', { model: 'm', usage: { input_tokens: 20, output_tokens: 3, cost_usd: 0.5 } }, 'model/2'),
      e('content', { content_blocks: [{ type: 'text', annotations: [{ type: 'citation', url: 'https://a/', title: 'A' }, { type: 'citation', url: 'https://a/', title: 'A' }] }] }, 'citations/2'),
    ];
    for (const x of all) apply(t, x);
    for (const x of all) apply(t, x); // again, as after a resume
    same(words(t), ['I look', 'Found.']);
    same(words(t, 'reasoning'), ['let me think']);
    same(t.parts.map((p) => p.kind), ['reasoning', 'text', 'tool', 'text']);
    same([t.parts[2].progress.length, t.parts[2].output, t.parts[2].ref, t.parts[2].done], [1, [1], 'cas://x', true]);
    same([t.usage.input_tokens, t.usage.cost_usd, t.usage.unpriced, t.agent, t.sources.length], [30, 0.5, true, 'analyst', 1]);
    same(over(t), false);
    apply(t, e('status', { status: 'COMPLETED', reason: 'end_turn', result: { status: 'completed', output: 'other', blocks: [{ type: 'text', text: 'other' }] } }));
    same([over(t), words(t)], [true, ['I look', 'Found.']]);
    same(spans(t).map((s) => [s.kind, s.name, s.from, s.first, s.to]), [['model', 'm', 100, 200, 600], ['tool', 'find', 700, null, 900], ['model', 'm', 900, 1000, 1100]]);
  });
  await test('pause', () => {
    index = 0;
    const t = newTurn('t0');
    apply(t, e('status', { status: 'RUNNING' }));
    same(pause(t), '');
    apply(t, e('status', { status: 'RUNNING', reason: 'away; next try in 5s' }));
    same(pause(t), 'away; next try in 5s');
    apply(t, e('token', { text: 'back' }));
    same(pause(t), '');
  });
  await test('reset', () => {
    index = 0;
    const t = newTurn('t2');
    apply(t, e('token', { text: 'kept ' }));
    const from = index + 1;
    apply(t, e('token', { text: 'void' }));
    apply(t, e('token', { text: 'other' }, 'model/9'));
    apply(t, e('content', { content_blocks: [{ type: 'image', url: 'https://x/y.png' }] }));
    apply(t, e('usage', { usage: { input_tokens: 5, output_tokens: 5 } }));
    apply(t, e('tool_start', { tool_call_id: 'c', tool_name: 'x', input: {} }, 'tool/c'));
    apply(t, e('reset', { producer: 'model/1', from_index: from }, 'model/1'));
    same(words(t), ['kept ', 'other']);
    same([t.usage, t.parts.some((p) => p.kind === 'block')], [null, false]);
    apply(t, e('reset', { producer: 'tool/c', from_index: 1 }, 'tool/c'));
    same(t.parts.find((p) => p.kind === 'tool').void, true);
    apply(t, e('tool_start', { tool_call_id: 'c', tool_name: 'x', input: { again: 1 } }, 'tool/c'));
    same([t.parts.filter((p) => p.kind === 'tool').length, t.parts.find((p) => p.kind === 'tool').void], [1, false]);
  });
  await test('approvals', () => {
    index = 0;
    const t = newTurn('t3');
    apply(t, e('approval_requested', { approval: { approval_id: 'a', tool_name: 'pay', args: { n: 1 } } }));
    apply(t, e('approval_requested', { approval: { approval_id: 'a', tool_name: 'pay', args: { n: 1 } } }));
    apply(t, e('status', { status: 'WAITING', reason: 'awaiting_approval' }));
    same([t.status, pending(t).length, t.parts.length], ['waiting', 1, 1]);
    apply(t, e('approval_resolved', { approval: { approval_id: 'a', decision: 'approve', by: 'ann' } }));
    same([pending(t).length, t.approvals[0].approval.by, t.approvals[0].approval.args], [0, 'ann', { n: 1 }]);
  });
  await test('a result without a stream', () => {
    const t = newTurn('t4');
    finish(t, { status: 'completed', output: 'all of it', blocks: [] });
    same(words(t), ['all of it']);
    finish(t, { status: 'completed', output: 'all of it', blocks: [] });
    same(words(t), ['all of it']);
  });
  await test('transcript', () => {
    const turns = fromTranscript([
      { position: 1, turn_id: 'a', role: 'user', blocks: [{ type: 'text', text: 'q' }] },
      { position: 2, turn_id: 'a', role: 'assistant', blocks: [{ type: 'text', text: 'x' }, { type: 'tool_call', id: 'c', name: 'f', args: {} }] },
      { position: 3, turn_id: 'a', role: 'tool', blocks: [{ type: 'tool_result', tool_call_id: 'c', status: 'error', output: 'no' }] },
      { position: 4, turn_id: 'a', role: 'assistant', blocks: [{ type: 'text', text: 'y' }] },
      { position: 5, turn_id: 'b', role: 'user', blocks: [{ type: 'text', text: 'q2' }] },
    ]);
    same(turns.map((t) => [t.id, t.said, t.parts.map((p) => p.text ?? p.name + p.failed)]), [['a', 'q', ['x', 'ftrue', 'y']], ['b', 'q2', []]]);
  });

  await test('sources keep their numbers', () => {
    const at = (text, marker, title) => ({ title, start_index: [...text.slice(0, text.indexOf(marker))].length, end_index: [...text.slice(0, text.indexOf(marker))].length + marker.length });
    const of = (text, ...cited) => {
      const sources = [];
      addSources(sources, cited.map(([marker, title]) => (marker ? at(text, marker, title) : { title })), [text]);
      return numbered(sources).map((s) => [s.number, s.title, s.inText]);
    };
    same(of('é😀 a [2], b [5].', ['[5]', 'E'], ['[2]', 'B']), [[2, 'B', true], [5, 'E', true]]);
    same(of('a [9, 1] b', ['[9, 1]', 'A']), [[1, 'A', true]]); // 9 is no passage
    same(of('a [3, 1] b [1]', ['[3, 1]', 'C'], ['[3, 1]', 'A'], ['[1]', 'A']), [[1, 'A', true], [3, 'C', true]]);
    same(of('a [2]', ['', 'X'], ['', 'X'], ['[2]', 'B']), [[2, 'B', true], [3, 'X', true]]);
    same(of('see there', ['there', 'X']), [[1, 'X', false]]); // a provider cites words, so a number in the text is something else
  });
  await test('changes of a document', () => {
    const of = (operations, document) => changes(operations, document).map((c) => c.lines.map((l) => l.sign + l.text).join('|') + (c.blind ? ' blind' : ''));
    const doc = parse('{"a":[1,{"b":"x"}],"n":12345678901234567890,"x/y":1}');
    same(of([{ op: 'replace', path: '/a/1/b', value: 'y' }, { op: 'remove', path: '/a/0' }, { op: 'replace', path: '/a/0', value: { b: 'y', c: 2 } }], doc),
      ['-"x"|+"y"', '-1', ' {|-  "b": "y"|+  "b": "y",|+  "c": 2| }']); // each on what the one before it left
    same(of([{ op: 'remove', path: '/n' }, { op: 'remove', path: '/x~1y' }, { op: 'add', path: '/a/0', value: 0 }, { op: 'remove', path: '/a/0' }], doc), ['-12345678901234567890', '-1', '+0', '-0']);
    same(of([{ op: 'remove', path: '/no/where' }, { op: 'replace', path: '/__proto__/x', value: 1 }, { op: 'add', path: '/q', value: 1 }], doc), [' blind', '+1 blind', '+1']);
    same(of([{ op: 'add', path: '/a', value: 1 }, { op: 'remove', path: '/a' }], undefined), ['+1', ' blind']);
    same([{}.x, JSON.stringify(doc.n)], [undefined, '12345678901234567890']);
    same(lines('x\n'.repeat(5000), 'y').length, 5002);
  });
  await test('a difference leaves out what is far from it', () => {
    const of = (before, after) => folded(lines(before, after), 1).map((l) => (l.skipped ? '~' + l.skipped : l.sign + l.text)).join('|');
    same(of('a\nb\nc\nd\ne\nf\ng', 'a\nb\nc\nX\ne\nf\ng'), '~2| c|-d|+X| e|~2');
    same([of('a', 'a'), of('a\na', 'a\na\na'), of(undefined, 'a')], ['~1', '~1| a|+a', '+a']);
    const long = 'x\n'.repeat(3000);
    same(of(long + 'a\n' + long, long + 'b\n' + long), '~2999| x|-a|+b| x|~3000');
  });
  await test('a shipped document that is replaced', () => {
    const key = { kind: 'AgentInstance', name: 'a', tenant: '*' };
    const shipped = { ...key, body: { name: 'a' } };
    same([withBefore({ ...key, action: 'created' }, shipped).before, withBefore({ ...key, tenant: 'default', action: 'created' }, shipped).before ?? null, withBefore({ ...key, before: 1 }, shipped).before], [{ name: 'a' }, null, 1]);
    same(textOf({ b: 1, name: 'a', kind: 'K' }), 'kind: K\nname: a\nb: 1\n');
    same(calledTools({ tool_calls: [{ tool: 'b' }, { tool: 'a' }, { tool: 'b' }] }), 'a, b ×2');
  });
  await test('rights', () => {
    const kept = state.principal;
    const as = (scopes, method = 'key') => (state.principal = { method, scopes });
    const all = (...scopes) => (as(scopes), [may('catalog.write'), may('catalog.write', 'AgentInstance/clerk'), may('catalog.write', 'RouteTable/main')]);
    same([all(), all('*'), all('catalog.read'), all('catalog.*:AgentInstance/c*'), all('catalog.write:RouteTable/main')],
      [[false, false, false], [true, true, true], [false, false, false], [true, true, false], [true, false, true]]);
    as([], 'none');
    same(may('catalog.write', 'x'), true);
    state.principal = kept;
  });
  await test('why a person is asked', () => {
    const known = ['not inherently safe', 'always asked', 'human_in_the_loop: default', 'human_in_the_loop: when', 'human_in_the_loop: interrupt_on.pay', 'human_in_the_loop: interrupt_on.pay.when', 'human_in_the_loop: when failed, so a person is asked'];
    for (const rule of known) same([rule, reason(rule, 'pay').startsWith('You are asked')], [rule, true]);
    same(reason('house rules', 'pay'), 'The rule: house rules');
  });
  await test('a hidden page asks nothing', () => {
    const kept = [globalThis.setInterval, document.hidden];
    let asked = 0;
    let timer;
    globalThis.setInterval = (f, ms) => (timer = { f, ms });
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => kept[1] });
    poll(() => asked++, 1000);
    globalThis.setInterval = kept[0];
    timer.f();
    kept[1] = true;
    timer.f();
    delete document.hidden;
    same([timer.ms, asked], [5000, 1]);
  });
  await test('usage by day', () => {
    same(daysOf('2026-11-21T00:00:00Z', '2026-11-23T10:00:00Z'), ['2026-11-21', '2026-11-22', '2026-11-23']);
    const rows = [...'abcdefgh'].map((model, i) => ({ day: '2026-11-22', model, n: i + 1 }));
    same(seriesOf(rows, 'model', ['2026-11-21', '2026-11-22'], (r) => r.n).map((s) => [s.name, ...s.values]), [['h', 0, 8], ['g', 0, 7], ['f', 0, 6], ['e', 0, 5], ['d', 0, 4], ['3 others', 0, 6]]);
    same([ticksOf(0), ticksOf(0.07), ticksOf(9), ticksOf(130)], [[0, 1], [0, 0.02, 0.04, 0.06, 0.08], [0, 2, 4, 6, 8, 10], [0, 50, 100, 150]]);
  });

  await test('yaml', () => {
    same(yaml({ a: 'yes', b: [{ c: 1, d: 'x\ny' }], e: {}, 'f:': ' g' }), 'a: "yes"\nb:\n  - c: 1\n    d: |-\n      x\n      y\ne: {}\n"f:": " g"');
    same(yaml(['a', ['b']]), '- a\n- - b');
    let deep = {};
    for (let i = 0; i < 5000; i++) deep = { deep };
    same(yaml(deep).length > 100, true);
  });
  await test('dry run request', () => {
    same(requestOf({ ui_page: ' /x ', flags: '{"beta":true}', channel: 'http', agent: 'a' }), { channel: 'http', agent: 'a', context: { ui_page: '/x', flags: { beta: true } } });
    for (const bad of ['{', '[1]', 'null', '"x"']) {
      let said = '';
      try {
        requestOf({ metadata: bad });
      } catch (err) {
        said = err.message;
      }
      same(said.startsWith('metadata:'), true);
    }
  });
  await test('arguments', () => same([check('{"a":1}'), check('[]') !== '', check('{') !== '', check('null') !== '', check('1') !== ''], ['', true, true, true, true]));
  await test('what hides is visible', () => {
    const { visible } = format;
    const hidden = { '\u202e': '\\u202e', '\u2069': '\\u2069', '\u200b': '\\u200b', '\u2064': '\\u2064', '\ufeff': '\\ufeff', '\u00ad': '\\u00ad', '\u{e0062}': '\\udb40\\udc62', '\u2028': '\\u2028', '\ufe0f': '\\ufe0f', '\u3164': '\\u3164', '\u009b': '\\u009b', '\ud83d': '\\ud83d', '\r': '\\u000d' };
    for (const [c, want] of Object.entries(hidden)) same(visible('a' + c + 'b' + c), 'a' + want + 'b' + want);
    for (let c = 0xe0000; c < 0xe0080; c++) same(/^[ -~]*$/.test(visible(String.fromCodePoint(c))), true);
    for (const text of ['Größe 漢字 👩 שלום', 'a\n\tb', '\\u202e', '']) same(visible(text), text);
    same([visible(undefined), visible(7)], ['', '7']);
    const args = { to: 'a\u202eb\\u202e', ['k\u200b']: ['\u{e0062}\n', '"\u00ad"'] };
    same(JSON.parse(visible(JSON.stringify(args, null, 2))), args);
  });
  await test('numbers stay what they are', () => {
    for (const s of ['12345678901234567890', '-0.12345678901234567891', '1e400', '1e-400', '[9007199254740993,{"a":3.14159265358979323846}]']) same([s, JSON.stringify(parse(s))], [s, s]);
    for (const s of ['1.50', '1E2', '-0', '0.1', '1e-7', '100', '1234567890123456000000000', '0.30000000000000004', '{"a":"12345678901234567890"}']) {
      same([s, typeof parse(s) === typeof JSON.parse(s), JSON.stringify(parse(s))], [s, true, JSON.stringify(JSON.parse(s))]);
    }
    same(yaml(parse('{"seed":12345678901234567890}')), 'seed: 12345678901234567890');
    same(check('12345678901234567890') !== '', true);
  });
  await test('health in a word', () => {
    const of = (status, ...states) => summary({ status, dependencies: states.map((state, i) => ({ name: 'n' + i, state, ok: state === 'ok' })) });
    same([summary(null), of('ok', 'ok'), of('degraded', 'ok', 'degraded'), of('failing', 'degraded', 'down'), of('failing', 'down', 'ok', 'down', 'degraded')],
      ['not known', 'all is well', 'n1 is degraded', 'n1 is down', 'n0 is down, 1 more']);
    same([of('draining', 'down'), of('failing')], ['the server is stopping', 'failing']);
  });
  await test('links', () => {
    for (const bad of ['javascript:alert(1)', ' javascript:alert(1)', 'java\nscript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc', 'blob:x', '/v1/turns', '', 'https://user:pass@host/', 'http://']) same([bad, safeURL(bad)], [bad, null]);
    for (const good of ['https://a.example/x?y#z', 'http://a.example', 'mailto:a@b.example']) same(safeURL(good) !== null, true);
  });
  await test('markdown', () => {
    const made = (s) => {
      const d = document.createElement('div');
      d.append(markdown(s));
      return d;
    };
    same(made('a **b** `c` <i>d</i>').textContent.trim(), 'a b c <i>d</i>');
    same(made('[x](https://a.example)').querySelector('a').rel, 'noopener noreferrer nofollow');
    same(made('| a | b |\n|--:|---|\n| 1 | 2 |').querySelectorAll('.table td').length, 2);
    same(made('![pic](https://a.example/x.png)').querySelectorAll('img').length, 0);
    same(made('- [x] done').textContent.trim(), '☑ done');
    const code = made('```js\nlet a = "<b>";\n```');
    same([code.querySelector('.lang').textContent, code.querySelector('code').textContent, code.querySelectorAll('.hljs-keyword').length], ['js', 'let a = "<b>";', 1]);
    // Nobody nests so deep; it is shown as it is, and soon.
    for (const deep of ['>'.repeat(8000) + ' x', '- '.repeat(6000) + 'x', '['.repeat(12000), '*a '.repeat(4000), '![['.repeat(4000), '`'.repeat(12000) + 'x', '<'.repeat(12000), '(a_'.repeat(4000), '| a '.repeat(3000) + '\n' + '|---'.repeat(3000) + '\n' + '| b '.repeat(3000), '\\['.repeat(6000), '&#'.repeat(6000), '[a](<b'.repeat(2000), '**_'.repeat(4000)]) {
      const began = performance.now();
      made(deep);
      const took = performance.now() - began;
      if (took > 8000) wrong.push('markdown: ' + deep.slice(0, 20) + '… took ' + took);
    }
  });
  await test('format', () => {
    same([format.duration(999), format.duration(1234), format.duration(61000), format.duration(3.7e6), format.duration(-1), format.duration(null)], ['999 ms', '1.2 s', '1 min 1 s', '1 h 1 min', '', '']);
    same([format.cost(null), format.cost({ cost_usd: 0 }), format.cost({ cost_usd: 0.00123 }), format.cost({ cost_usd: 1.5 }), format.count(1234567)],
      ['', '', '$0.0012', '$1.50', '1,234,567']);
    same([format.cost({ cost_usd: 0, unpriced: true }), format.cost({ cost_usd: 1.5, unpriced: true })], ['not priced', '$1.50, some not priced']);
    same(format.pretty('x'.repeat(30000)).length < 20100, true);
  });
  return wrong;
}
