// A process workflow: an agent writes, a person approves, the agent goes on in the same session. It knows Turnstone by the name of a
// workflow and of a task queue, and nothing else.
import {
  ApplicationFailure,
  ChildWorkflowCancellationType,
  ParentClosePolicy,
  allHandlersFinished,
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  executeChild,
  getExternalWorkflowHandle,
  setHandler,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow';
import { Heard } from './turnstone';
import type { AgentStepOutput, Decision, Pending, TokenBatch, TurnRequest } from './turnstone';

export interface ReviewInput {
  message: string; // the agent's first message
  then: string; // and its second, once a person has approved
  queue: string; // the task queue of Turnstone's workers
  tenant?: string;
}

export interface ReviewResult {
  status: 'approved' | 'rejected';
  by: string;
  batches: number; // of tokens that were heard
  heard: string[]; // what the batches of each turn amount to
  steps: { turn_id: string; session_id: string; status: string; output: string; result_ref: string }[];
}

export interface ReviewState {
  status: 'running' | 'waiting';
  partial_text: string;
  pending: Pending[];
  question: string | null;
}

export interface Answer {
  choice: 'approve' | 'reject';
  by: string;
}

const tokens = defineSignal<[TokenBatch]>('tokens');
const decide = defineUpdate<void, [Decision]>('decide');
const answer = defineUpdate<void, [Answer]>('answer');
const state = defineQuery<ReviewState>('state');

export async function review(input: ReviewInput): Promise<ReviewResult> {
  let current: Heard | undefined;
  let question: string | null = null;
  let given: Answer | undefined;
  const result: ReviewResult = { status: 'rejected', by: '', batches: 0, heard: [], steps: [] };

  setHandler(tokens, (b) => {
    result.batches++;
    current?.hear(b);
  });
  setHandler(state, () => ({
    status: question || current?.pending.length ? 'waiting' : 'running',
    partial_text: current?.text ?? '',
    pending: current?.pending ?? [],
    question,
  }));
  setHandler(answer, (a) => { given = a; }, {
    validator: (a) => {
      if (!question || given) throw ApplicationFailure.nonRetryable('nothing is asked', 'conflict');
      if (a.choice !== 'approve' && a.choice !== 'reject') throw ApplicationFailure.nonRetryable('choice: want approve or reject', 'invalid');
    },
  });
  // The turn judges the decision; the process only passes it on.
  setHandler(decide, async (d) => {
    if (!current) throw ApplicationFailure.nonRetryable('no turn is at work', 'conflict');
    await getExternalWorkflowHandle('turn/' + current.turnId).signal('decide', d);
  });

  // step runs a turn as a child, up to three times where it may succeed later. Each attempt is a turn of its own.
  async function step(message: string, session_id?: string): Promise<AgentStepOutput> {
    for (let attempt = 1; ; attempt++) {
      const turn_id = uuid4(); // deterministic in a workflow
      current = new Heard(turn_id);
      const request: TurnRequest = {
        turn_id,
        session_id,
        message,
        context: { tenant: input.tenant },
        stream_to: { workflow_id: workflowInfo().workflowId, signal: 'tokens', interval_ms: 100 },
      };
      const out: AgentStepOutput = await executeChild('AgentTurn', {
        workflowId: 'turn/' + turn_id,
        taskQueue: input.queue,
        args: [request],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        staticSummary: `attempt ${attempt}`,
      });
      result.heard.push(current.text);
      current = undefined;
      if (out.status === 'completed') {
        const { status, output, result_ref } = out;
        result.steps.push({ turn_id, session_id: out.session_id, status, output, result_ref });
        return out;
      }
      const type = out.error?.type ?? out.stop_reason;
      if (!out.error?.retryable || attempt === 3) {
        throw ApplicationFailure.nonRetryable(`turn ${turn_id}: ${type}: ${out.error?.message ?? out.status}`, type);
      }
      await sleep(1000 * 2 ** attempt);
    }
  }

  const draft = await step(input.message);
  question = `May it go on? So far: ${draft.output}`;
  await condition(() => given !== undefined);
  question = null;
  result.by = given!.by;
  if (given!.choice === 'approve') {
    result.status = 'approved';
    await step(input.then, draft.session_id);
  }
  await condition(allHandlersFinished);
  return result;
}
