// Asks the door at $BASE_URL once with each client and each of its ways, with the retries that the client comes with. Who runs it counts the turns.
// $MODELS are agents whose turns give no answer; {client} in a name is the client that asks.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { ChatOpenAI } from '@langchain/openai';

const baseURL = process.env.BASE_URL;
const apiKey = process.env.API_KEY ?? 'none';
const prompt = process.env.PROMPT ?? 'send it';
const messages = [{ role: 'user', content: prompt }];

const official = new OpenAI({ baseURL, apiKey });
const aiSDK = createOpenAICompatible({ name: 'turnstone', baseURL, apiKey });
const langchain = (model) => new ChatOpenAI({ model, apiKey, configuration: { baseURL } });

async function drain(stream) {
  for await (const _ of stream);
}

const clients = {
  'openai': (model) => official.chat.completions.create({ model, messages }),
  'openai-stream': async (model) => drain(await official.chat.completions.create({ model, messages, stream: true })),
  'ai': (model) => generateText({ model: aiSDK(model), prompt }),
  'ai-stream': async (model) => {
    let failure;
    await streamText({ model: aiSDK(model), prompt, onError: ({ error }) => { failure = error; } }).consumeStream();
    if (failure) throw failure;
  },
  'langchain': (model) => langchain(model).invoke(prompt),
  'langchain-stream': async (model) => drain(await langchain(model).stream(prompt)),
};

for (const pattern of process.env.MODELS.split(',')) {
  for (const [name, ask] of Object.entries(clients)) {
    const begun = Date.now();
    const model = pattern.replace('{client}', name);
    const error = await ask(model).then(() => assert.fail(`${name} got an answer of ${model}`), (e) => e);
    assert.ok(error.status !== undefined || error.statusCode !== undefined || error.code || error.error, `${name}: ${error.stack}`);
    console.log(`ok ${name} ${model} ${Date.now() - begun} ms: ${error.message}`);
  }
}
