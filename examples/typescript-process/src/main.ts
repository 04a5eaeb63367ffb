// Runs a worker, starts the process, follows it, and prints its result as JSON:
//
//   npm start --silent -- --address 127.0.0.1:7233 --answer approve
//
// Without --answer it waits until a person answers, and says on stderr how.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { Answer, ReviewInput, ReviewResult, ReviewState } from './workflows';

const taskQueue = 'reviews'; // our own

async function main(): Promise<void> {
  const { values: flags } = parseArgs({
    options: {
      address: { type: 'string', default: '127.0.0.1:7233' },
      namespace: { type: 'string', default: 'default' },
      queue: { type: 'string', default: 'turnstone' },
      tenant: { type: 'string' },
      message: { type: 'string', default: 'say 40 words slowly' },
      then: { type: 'string', default: 'say 3 words' },
      answer: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (flags.help) {
    process.stdout.write('Usage: npm start --silent -- [--address HOST:PORT] [--namespace NAME] [--queue NAME] [--tenant NAME] ' +
      '[--message TEXT] [--then TEXT] [--answer approve|reject]\n');
    return;
  }
  const { address, namespace } = flags;
  Runtime.install({ logger: new DefaultLogger('WARN') });
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address }),
    namespace,
    taskQueue,
    workflowsPath: require.resolve('./workflows'),
  });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });

  const result = await worker.runUntil(async () => {
    const input: ReviewInput = { message: flags.message, then: flags.then, queue: flags.queue, tenant: flags.tenant };
    const handle = await client.workflow.start('review', { taskQueue, workflowId: 'review-' + randomUUID(), args: [input] });
    let over = false;
    const ended: Promise<ReviewResult> = handle.result().finally(() => { over = true; });
    ended.catch(() => {}); // it is awaited below
    let shown = '';
    let asked = false;
    while (!over) {
      const state = await handle.query<ReviewState>('state');
      if (state.partial_text && state.partial_text !== shown) {
        shown = state.partial_text;
        process.stderr.write(`… ${shown.slice(-60)}\n`);
      }
      if (state.question && !asked) {
        asked = true;
        if (flags.answer) {
          const answer = { choice: flags.answer, by: 'npm start' } as Answer;
          await handle.executeUpdate('answer', { args: [answer] });
        } else {
          process.stderr.write(
            `${state.question}\ntemporal workflow update execute --workflow-id ${handle.workflowId} --name answer --input '{"choice":"approve","by":"you"}'\n`,
          );
        }
      }
      await Promise.race([pause(200), ended]);
    }
    return ended;
  });
  process.stdout.write(JSON.stringify(result) + '\n');
}

main().then(
  () => process.exit(0),
  (err: unknown) => {
    console.error(`Error: ${err instanceof Error ? err.message : String(err)}`);
    process.exit(1);
  },
);
