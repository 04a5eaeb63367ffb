// Has the model at $BASE_URL call a tool of the client's with each client library, by the way that the library runs tools: the answer needs the result.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';

const baseURL = process.env.BASE_URL;
const apiKey = process.env.API_KEY ?? 'none';
const model = process.env.MODEL;
const prompt = 'add 2 and 3';
const parameters = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false };
const description = 'adds two numbers';
let sums = 0;
const add = ({ a, b }) => { sums++; return String(a + b); };

const official = new OpenAI({ baseURL, apiKey });
const aiSDK = createOpenAICompatible({ name: 'turnstone', baseURL, apiKey });
const aiTools = () => ({ add: tool({ description, inputSchema: jsonSchema(parameters), execute: add }) });
const functionTool = { type: 'function', function: { name: 'add', description, parameters } };
setTracingDisabled(true);

async function withLangChain(ask) {
  const chat = new ChatOpenAI({ model, apiKey, configuration: { baseURL } }).bindTools([functionTool]);
  const messages = [new HumanMessage(prompt)];
  for (;;) {
    const reply = await ask(chat, messages);
    messages.push(reply);
    if (!reply.tool_calls.length) return reply.content;
    for (const call of reply.tool_calls) messages.push(new ToolMessage({ content: add(call.args), tool_call_id: call.id }));
  }
}

const adder = new Agent({
  name: 'adder', model: new OpenAIChatCompletionsModel(official, model),
  tools: [agentTool({ name: 'add', description, parameters, strict: false, execute: add })],
});

const clients = {
  async 'openai'() {
    const runner = official.chat.completions.runTools({
      model, messages: [{ role: 'user', content: prompt }],
      tools: [{ type: 'function', function: { name: 'add', description, parameters, parse: JSON.parse, function: add } }],
    });
    return runner.finalContent();
  },
  async 'openai-stream'() {
    const runner = official.chat.completions.runTools({
      model, stream: true, messages: [{ role: 'user', content: prompt }],
      tools: [{ type: 'function', function: { name: 'add', description, parameters, parse: JSON.parse, function: add } }],
    });
    return runner.finalContent();
  },
  'ai': async () => (await generateText({ model: aiSDK(model), prompt, tools: aiTools(), stopWhen: stepCountIs(4) })).text,
  'ai-stream': async () => streamText({ model: aiSDK(model), prompt, tools: aiTools(), stopWhen: stepCountIs(4) }).text,
  'langchain': () => withLangChain((chat, messages) => chat.invoke(messages)),
  'langchain-stream': () => withLangChain(async (chat, messages) => {
    let whole;
    for await (const chunk of await chat.stream(messages)) whole = whole ? whole.concat(chunk) : chunk;
    return whole;
  }),
  'agents': async () => (await run(adder, prompt)).finalOutput,
  'agents-stream': async () => {
    const result = await run(adder, prompt, { stream: true });
    await result.completed;
    return result.finalOutput;
  },
};

for (const [name, ask] of Object.entries(clients)) {
  sums = 0;
  assert.equal(await ask(), 'the sum is 5', name);
  assert.equal(sums, 1, `${name}: the tool ran once`);
  console.log(`ok ${name}`);
}

// Another question behind an answered call: the ids of the past are of no turn any more.
const { choices: [{ message }] } = await official.chat.completions.create({ model, tools: [functionTool], messages: [{ role: 'user', content: prompt }] });
const [{ id }] = message.tool_calls;
const answered = [{ role: 'user', content: prompt }, message, { role: 'tool', tool_call_id: id, content: '5' }];
for (const messages of [answered, answered, [...answered, { role: 'assistant', content: 'the sum is 5' }, { role: 'user', content: 'sure?' }]]) {
  const again = await official.chat.completions.create({ model, tools: [functionTool], messages });
  assert.equal(again.choices[0].message.content, 'the sum is 5');
  assert.equal(again.choices[0].finish_reason, 'stop');
}
console.log('ok again');
