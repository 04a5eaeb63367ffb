// What goes over the wire between a process and Turnstone: plain JSON (docs/guides/processes.md). Only what this example uses is declared.

/** The input of the workflow AgentTurn. */
export interface TurnRequest {
  turn_id: string;
  agent?: string;
  session_id?: string;
  message: string;
  context?: { tenant?: string; user_id?: string };
  stream_to?: { workflow_id: string; signal: string; interval_ms?: number };
}

/** Its result. A turn that failed returns too; the child workflow itself fails only when the request is refused. */
export interface AgentStepOutput {
  turn_id: string;
  session_id: string;
  status: 'completed' | 'failed' | 'cancelled';
  output: string; // capped; result_ref has the rest
  result_ref: string;
  stop_reason: string;
  error: { type: string; message: string; retryable: boolean } | null;
  usage: { input_tokens: number; output_tokens: number };
}

/** A signal with the next words of an answer, or with the tool calls that wait for a person. */
export interface TokenBatch {
  turn_id: string;
  step: number;
  attempt: number;
  batch: number;
  text: string;
  pending?: Pending[];
}

export interface Pending {
  approval_id: string;
  call_id: string;
  tool_name: string;
}

/** What a person decides about a tool call. */
export interface Decision {
  approval_id: string;
  decision: 'approve' | 'edit' | 'reject' | 'respond';
  args?: unknown;
  message?: string;
  by: string;
}

/** The growing answer of one turn. */
export class Heard {
  text = '';
  pending: Pending[] = [];
  private step = 0;
  private attempt = 0;
  private batch = 0;
  private asked = 0;

  constructor(readonly turnId: string) {}

  /** A newer attempt of a step voids what the older one said; what comes twice counts once. */
  hear(b: TokenBatch): void {
    if (b.turn_id !== this.turnId) return;
    if (b.pending?.length) {
      if (b.step > this.asked) [this.asked, this.pending] = [b.step, b.pending];
      return;
    }
    if (b.step < this.step || (b.step === this.step && b.attempt < this.attempt)) return;
    if (b.step > this.step || b.attempt > this.attempt) {
      [this.step, this.attempt, this.text] = [b.step, b.attempt, ''];
    } else if (b.batch <= this.batch) return;
    this.batch = b.batch;
    if (b.step > this.asked) this.pending = []; // nothing of a step runs before all its calls are decided
    this.text = (this.text + b.text).slice(0, 16_384);
  }
}
