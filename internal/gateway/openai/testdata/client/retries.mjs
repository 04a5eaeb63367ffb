// Asks the door at $BASE_URL once with each client and each of its ways, with the retries that the client comes with. Who runs it counts the turns.
// $MODELS are agents, and $PROMPTS what they are told; none gives an answer. {client} in either is the client that asks.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { ChatOpenAI } from '@langchain/openai';

const baseURL = process.env.BASE_URL;
const apiKey = process.env.API_KEY ?? 'none';
const said = (content) => [{ role: 'user', content }];

const official = new OpenAI({ baseURL, apiKey });
const aiSDK = createOpenAICompatible({ name: 'turnstone', baseURL, apiKey });
const langchain = (model) => new ChatOpenAI({ model, apiKey, configuration: { baseURL } });

async function drain(stream) {
  for await (const _ of stream);
}

const clients = {
  'openai': (model, prompt) => official.chat.completions.create({ model, messages: said(prompt) }),
  'openai-stream': async (model, prompt) => drain(await official.chat.completions.create({ model, messages: said(prompt), stream: true })),
  'ai': (model, prompt) => generateText({ model: aiSDK(model), prompt }),
  'ai-stream': async (model, prompt) => {
    let failure;
    await streamText({ model: aiSDK(model), prompt, onError: ({ error }) => { failure = error; } }).consumeStream();
    if (failure) throw failure;
  },
  'langchain': (model, prompt) => langchain(model).invoke(prompt),
  'langchain-stream': async (model, prompt) => drain(await langchain(model).stream(prompt)),
};

for (const agent of process.env.MODELS.split(',')) {
  for (const text of (process.env.PROMPTS ?? 'send it').split(',')) {
    for (const [name, ask] of Object.entries(clients)) {
      const begun = Date.now();
      const [model, prompt] = [agent, text].map((s) => s.replace('{client}', name));
      const error = await ask(model, prompt).then(() => assert.fail(`${name} got an answer of ${model}`), (e) => e);
      const last = error.lastError ?? error; // of the AI SDK, after repetitions
      assert.ok(last.status ?? last.statusCode ?? last.code ?? last.error, `${name}: ${error.stack}`);
      console.log(`ok ${name} ${model} "${prompt}" ${Date.now() - begun} ms: ${error.message}`);
    }
  }
}
