// Runs against the stack that TestClientPackages starts (e2e/client_packages_test.go).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, Text, TurnstoneError } from '@turnstone/client';

const { TURNSTONE_URL, TURNSTONE_CUT_URL } = process.env;
const client = new Client(TURNSTONE_URL);
const cut = new Client(TURNSTONE_CUT_URL, { apiKey: 'key-1' }); // loses the answers of the first requests
const flights = 'fetch flights from NYC to LAX';

/** Reads a stream to its end and returns its events; `on` is told of each. */
async function collect(stream, on = () => {}) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    await on(event);
  }
  return events;
}

/** Asserts that a call throws a TurnstoneError with these members, and returns it. */
async function refused(call, members) {
  const error = await call.then(() => assert.fail('it did not fail'), (error) => error);
  assert.ok(error instanceof TurnstoneError, error);
  for (const [name, value] of Object.entries(members)) {
    assert.equal(error[name], value, `${name} of ${error.code}: ${error.message}`);
  }
}

test('run waits for the result, or until a person is asked', async () => {
  const result = await client.run({ message: 'hello' });
  assert.equal(result.output, 'Three flights leave today.');
  assert.equal((await client.turn(result.turn_id)).state, 'completed');
  assert.equal((await client.result(result.turn_id)).output, result.output);
  const state = await client.run({ message: flights });
  assert.equal(state.state, 'waiting');
  assert.equal(state.pending[0].tool_name, 'execute_pipeline');
  await client.cancel(state.turn_id);
});

test('rerun, fork and rename', async () => {
  const { turn_id, session_id } = await client.run({ message: 'hello' });
  const again = await cut.rerun(turn_id, { session_id: `${session_id}-again` });
  assert.deepEqual([again.rerun_of, again.session_id], [turn_id, `${session_id}-again`]);
  const events = await collect(client.follow(again.turn_id));
  assert.equal(events.at(-1).result.output, 'Three flights leave today.');
  const branch = await client.fork(session_id, { turn_id });
  assert.deepEqual([branch.forked_from, branch.messages], [session_id, 2]);
  assert.equal((await client.messages(branch.session_id)).messages.length, 2);
  assert.equal((await client.renameSession(branch.session_id, 'Try again')).title, 'Try again');
  await refused(client.renameSession('none', 'x'), { code: 'not_found' });
  await refused(client.fork(session_id, { turn_id: 'none' }), { code: 'not_found', field: 'turn_id' });
});

for (const [decision, more] of Object.entries({
  approve: () => ({}), edit: (args) => ({ args }), reject: () => ({ message: 'too dear' }), respond: () => ({ message: 'it is booked' }),
})) {
  test(`decide: ${decision}`, async () => {
    const events = await collect(client.stream({ message: flights }), async ({ type, approval }) => {
      if (type === 'approval_requested') {
        await client.decide(approval.turn_id, { approval_id: approval.approval_id, decision, by: 'ops', ...more(approval.args) });
      }
    });
    assert.equal(events.find((e) => e.type === 'approval_resolved').approval.decision, decision);
    assert.equal(events.at(-1).status, 'COMPLETED');
  });
}

test('provide', async () => {
  const client_tools = [{ name: 'add', parameters: { type: 'object', properties: {} } }];
  const events = await collect(client.stream({ message: 'add 2 and 3', client_tools }), async ({ type, approval }) => {
    if (type === 'input_requested') {
      assert.deepEqual(approval.args, { a: 2, b: 3 });
      await cut.provide(approval.turn_id, { tool_call_id: approval.call_id, result: { sum: 5 } });
    }
  });
  assert.equal(events.at(-1).result.output, 'the sum is 5');
});

test('lost connections: a start runs once, a stream goes on, Retry-After is obeyed', async () => {
  const session_id = 'typescript-lost';
  const text = new Text();
  const events = await collect(cut.stream({ message: 'break off', session_id }), (event) => text.add(event));
  const { turn_id } = events[0].meta;
  const all = await collect(client.follow(turn_id));
  assert.deepEqual(events, all, 'each event once');
  assert.equal(events.filter((e) => e.type === 'reset').length, 1);
  assert.equal(String(text), 'all is well again');
  assert.equal(events.at(-1).result.output, 'all is well again');
  const page = await client.messages(session_id, { limit: 1 });
  assert.deepEqual([page.more, page.messages[0].role], [true, 'user']);
  const next = await client.messages(session_id, { after: page.next });
  assert.deepEqual([next.more, next.messages.length, next.messages[0].role], [false, 1, 'assistant']);
  const before = Date.now();
  assert.equal((await cut.turn(turn_id)).state, 'completed');
  assert.ok(Date.now() - before >= 1000, 'Retry-After');
  const last = events.at(-1).meta.event_index;
  assert.deepEqual(await collect(client.follow(turn_id, { after: last })), []);
  assert.equal((await collect(client.follow(turn_id, { after: last - 1 }))).length, 1);
  await refused(new Client(TURNSTONE_CUT_URL).turn(turn_id), { code: 'unauthenticated', status: 401, retryable: false });
});

test('errors', async () => {
  await refused(client.run({ mesage: 'x' }), { code: 'invalid', field: 'mesage', status: 400, retryable: false });
  await refused(client.turn('nobody'), { code: 'not_found', status: 404 });
  await refused(collect(client.follow('nobody')), { code: 'not_found', status: 404 });
  await refused(client.start({ message: 'x', agent: 'nobody' }), { code: 'not_found', field: 'agent' });
  const { turn_id } = await client.run({ message: 'hello' });
  await refused(client.cancel(turn_id), { code: 'conflict', status: 409 });
  await refused(new Client(TURNSTONE_URL, { tenant: 'acme' }).turn(turn_id), { code: 'not_found' });
  await refused(new Client('http://127.0.0.1:1', { retryMs: 500 }).turn(turn_id), { code: 'unavailable', status: 0, retryable: true });
});

test('cancel, timeout and abort', async () => {
  const request = { message: 'hold on', idempotency_key: crypto.randomUUID() };
  const { turn_id } = await client.start(request);
  assert.equal((await client.start(request)).turn_id, turn_id);
  await refused(collect(client.follow(turn_id, { timeoutMs: 500 })), { code: 'unavailable', message: 'the call did not end in time' });
  await refused(client.run(request, { timeoutMs: 500 }), { code: 'unavailable', message: 'the call did not end in time' });
  const controller = new AbortController();
  const abort = ({ type }) => type === 'token' && controller.abort();
  await refused(collect(client.follow(turn_id, { signal: controller.signal }), abort), { code: 'cancelled', status: 0 });
  await client.cancel(turn_id, { reason: 'enough' });
  assert.equal((await collect(client.follow(turn_id))).at(-1).status, 'CANCELLED');
});
