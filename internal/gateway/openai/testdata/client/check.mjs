// Uses the door at $BASE_URL as a program does that was written for OpenAI's API. The agents are scripted by client_test.go.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'not-checked-here', maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const ask = (model, more = {}) => client.chat.completions.create({ model, messages: user('hello'), ...more });

const checks = {
  async 'models.list'() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ['analyst', 'analyst:fast', 'waits']);
  },

  async 'models.retrieve'() {
    const model = await client.models.retrieve('analyst:fast');
    assert.equal(model.id, 'analyst:fast');
    assert.equal(model.object, 'model');
    assert.equal(model.owned_by, 'turnstone');
    await assert.rejects(client.models.retrieve('nobody'), OpenAI.NotFoundError);
  },

  async 'an answer'() {
    const { data, response } = await ask('analyst', { temperature: 0.2, max_completion_tokens: 50, seed: 7 }).withResponse();
    assert.match(data.id, /^chatcmpl-turn-\d+$/);
    assert.equal(response.headers.get('turnstone-turn-id'), data.id.slice('chatcmpl-'.length));
    assert.equal(data.object, 'chat.completion');
    assert.equal(data.model, 'analyst');
    assert.deepEqual(data.choices[0].message, {
      role: 'assistant', content: 'Let me look.\n\nHere are three flights.', reasoning_content: 'They want flights.', refusal: null,
    });
    assert.equal(data.choices[0].finish_reason, 'stop');
    assert.deepEqual(data.usage, {
      prompt_tokens: 10, completion_tokens: 5, total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 0 }, completion_tokens_details: { reasoning_tokens: 0 },
    });
    assert.ok(data._request_id);
  },

  async 'a stream, by iterator'() {
    const stream = await ask('analyst', { stream: true, stream_options: { include_usage: true } });
    let text = '', role, finish, usage, deltas = 0;
    for await (const chunk of stream) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      const [choice] = chunk.choices;
      role ??= choice?.delta.role;
      finish ??= choice?.finish_reason;
      if (choice?.delta.content) { text += choice.delta.content; deltas++; }
      if (chunk.usage) { usage = chunk.usage; assert.deepEqual(chunk.choices, []); }
    }
    assert.equal(text, 'Let me look.\n\nHere are three flights.');
    assert.ok(deltas > 3, 'it came in pieces');
    assert.equal(role, 'assistant');
    assert.equal(finish, 'stop');
    assert.equal(usage.total_tokens, 15);
  },

  async 'a stream, by helper'() {
    const stream = client.chat.completions.stream({ model: 'analyst:fast', messages: user('hello') });
    let seen = '';
    stream.on('content', (delta) => { seen += delta; });
    assert.equal(await stream.finalContent(), 'Let me look.\n\nHere are three flights.');
    assert.equal(seen, await stream.finalContent());
    assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, 'stop');
  },

  async 'a document by schema'() {
    const response_format = {
      type: 'json_schema',
      json_schema: { name: 'words', schema: { type: 'object', properties: { words: { type: 'array', items: { type: 'string' } } } } },
    };
    const whole = await client.chat.completions.parse({ model: 'document', messages: user('three words'), response_format });
    assert.deepEqual(whole.choices[0].message.parsed, { words: ['a', 'b', 'c'] });
    const stream = client.chat.completions.stream({ model: 'document', messages: user('three words'), response_format });
    assert.deepEqual(JSON.parse(await stream.finalContent()), { words: ['a', 'b', 'c'] });
  },

  async 'parts and history'() {
    const completion = await client.chat.completions.create({
      model: 'echo',
      messages: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'what is this?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }] },
        { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"it"}' } }] },
        { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
        { role: 'user', content: 'sure?' },
      ],
    });
    assert.equal(completion.choices[0].message.content, 'system:text user:text,image assistant:tool_call tool:tool_result user:text');
  },

  async 'a model that is not there'() {
    const error = await ask('nobody').then(assert.fail, (e) => e);
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.deepEqual([error.status, error.code, error.param, error.type], [404, 'model_not_found', 'model', 'invalid_request_error']);
  },

  async 'tools of the client'() {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
    const error = await ask('analyst', { tools, tool_choice: 'required' }).then(assert.fail, (e) => e);
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'tool_choice');
    await ask('analyst', { tools, tool_choice: 'none' });
    const completion = await ask('calls', { tools });
    assert.equal(completion.choices[0].finish_reason, 'tool_calls');
    const [call] = completion.choices[0].message.tool_calls;
    assert.deepEqual(call.function, { name: 'f', arguments: '{"x":1}' });
    const { choices: [choice] } = await client.chat.completions.create({
      model: 'calls', tools, messages: [...user('hello'), completion.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'one' }],
    });
    assert.equal(choice.message.content, 'f says "one"');
  },

  async 'no credential'() {
    const error = await ask('locked').then(assert.fail, (e) => e);
    assert.ok(error instanceof OpenAI.AuthenticationError);
    assert.equal(error.code, 'invalid_api_key');
  },

  async 'too many requests'() {
    const error = await ask('busy').then(assert.fail, (e) => e);
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.equal(error.code, 'rate_limit_exceeded');
    assert.equal(error.headers.get('retry-after'), '7');
  },

  async 'a turn that waits for a person is not asked again'() {
    const patient = client.withOptions({ maxRetries: 3 });
    const before = await count();
    const error = await patient.chat.completions.create({ model: 'waits', messages: user('send it') }).then(assert.fail, (e) => e);
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, 'awaiting_approval');
    assert.equal(error.error.pending[0].approval_id, 'a1');
    assert.equal(await count(), before + 2, 'one turn, besides the one that counts');
  },

  async 'errors within a stream'() {
    for (const [model, code] of [['waits', 'awaiting_approval'], ['fails', 'model_error'], ['restarts', 'stream_restarted']]) {
      const stream = await ask(model, { stream: true });
      const error = await (async () => { for await (const _ of stream); })().then(assert.fail, (e) => e);
      assert.ok(error instanceof OpenAI.APIError, model);
      assert.equal(error.code, code);
    }
  },

  async 'a client that hangs up'() {
    const stream = await ask('silent', { stream: true });
    for await (const _ of stream) break;
    assert.ok(stream.controller.signal.aborted);
  },
};

// count asks how many turns there were; asking is one.
async function count() {
  return Number((await ask('count')).choices[0].message.content);
}

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
  } catch (error) {
    console.error(`${name}: ${error.stack}`);
    process.exit(1);
  }
  console.log(`ok ${name}`);
}
