// Generated from the OpenAPI document by: go test ./clients -run TestTypes -update

/** Every refusal has this body. */
export interface ErrorBody {
  error: Failure;
}

/** Asks for one turn. Exactly one of message and messages is given. */
export interface TurnRequest {
  turn_id?: string;
  /** empty: routing decides */
  agent?: string;
  /** empty: a session of its own, named after the turn */
  session_id?: string;
  message?: string;
  messages?: Message[];
  context?: InvocationContext;
  history?: History;
  mode?: Mode;
  /** a profile that the agent lists */
  model?: string;
  limits?: Limits;
  channel?: string;
  idempotency_key?: string;
  /** a JSON Schema: structured of the result satisfies it */
  output_schema?: unknown;
  on_busy?: OnBusy;
  /** tools that run at the caller, besides the agent's own */
  client_tools?: ClientTool[];
  /** an AgentInstance as YAML or JSON text, which answers this turn without being applied */
  draft?: string;
}

/** What is to be different from the turn that runs again. What is left out is as that turn's request had it. */
export interface RerunRequest {
  /** the steps of the turn before this one are taken over, and not done again; 0: none is */
  from_step?: number;
  agent?: string;
  /** a profile that the agent lists */
  model?: string;
  /** the system prompt in place of the agent's, for this turn alone */
  prompt?: string;
  /** an AgentInstance as YAML or JSON text, which answers this turn without being applied */
  draft?: string;
  /** of the branch, which must be new; empty: named after the new turn */
  session_id?: string;
  turn_id?: string;
  idempotency_key?: string;
  mode?: Mode;
  history?: History;
  context?: InvocationContext;
  limits?: Limits;
  /** a JSON Schema */
  output_schema?: unknown;
  client_tools?: ClientTool[];
}

/** A tool that runs at the caller. A call of it makes the turn wait until its result is provided. */
export interface ClientTool {
  name: string;
  description?: string;
  /** a JSON Schema of an object: the arguments */
  parameters?: unknown;
  strict?: boolean;
  /** how long the turn waits for a result; 0: an hour */
  expires_sec?: number;
}

/** A message: who speaks, in typed blocks. */
export interface Message {
  role: Role;
  blocks: Block[];
}

export type Role = 'system' | 'user' | 'assistant' | 'tool';

/** One typed piece of a message, as LangChain v1 writes content blocks. */
export interface Block {
  type: BlockType;
  /** of the block; of the call for tool_call, invalid_tool_call, server_tool_call */
  id?: string;
  /** text */
  text?: string;
  annotations?: Annotation[];
  /** reasoning */
  reasoning?: string;
  /** reasoning: the provider's proof, sent back verbatim */
  signature?: string;
  /** image, audio, file: exactly one of url, base64, file_id */
  url?: string;
  /** standard encoding; wants mime_type */
  base64?: string;
  /** an id at the provider */
  file_id?: string;
  /** e.g. image/png */
  mime_type?: string;
  /** tool blocks: the tool's name */
  name?: string;
  /** tool_call: an object; invalid_tool_call: the string as it came */
  args?: unknown;
  /** tool_result, server_tool_result: the call it answers */
  tool_call_id?: string;
  /** tool_result, server_tool_result: success or error */
  status?: string;
  /** tool_result, server_tool_result: any JSON */
  output?: unknown;
  /** tool_result: cas:// reference when the output was too large */
  ref?: string;
  /** invalid_tool_call: why */
  error?: string;
  /** non_standard: any JSON */
  value?: unknown;
  /** provider-specific additions, carried verbatim */
  extras?: unknown;
}

export type BlockType = 'text' | 'reasoning' | 'image' | 'audio' | 'file' | 'tool_call' | 'invalid_tool_call' | 'tool_result' | 'server_tool_call' | 'server_tool_result' | 'non_standard';

/** Marks a span of a text block; the one type in use is "citation" (LangChain v1). */
export interface Annotation {
  type: string;
  id?: string;
  url?: string;
  title?: string;
  start_index?: number;
  end_index?: number;
  cited_text?: string;
  extras?: unknown;
}

/** The envelope that routing sees. */
export interface InvocationContext {
  tenant?: string;
  user_id?: string;
  user_role?: string;
  ui_page?: string;
  flags?: Record<string, unknown>;
  metadata?: Record<string, unknown>;
}

export type History = 'load' | 'fresh';

export type Mode = 'durable' | 'direct';

/** why a turn that was to be direct runs as a workflow */
export type Fallback = 'limit' | 'worker' | 'session' | 'person' | 'agent' | 'provider' | 'duration' | 'trouble' | 'stop' | 'lost';

/** Bound a turn; 0 means no bound of this kind. Those of a request can only lower those of the plan. */
export interface Limits {
  /** rounds of the loop: a model call with its repetitions, and the tools it asked for */
  iterations?: number;
  /** requests to the provider, repetitions included */
  model_calls?: number;
  tool_calls?: number;
  /** input plus output, over all model calls */
  tokens?: number;
  /** over all model calls */
  cost_usd?: number;
  /** from the turn's start, human pauses not counted */
  wall_time_sec?: number;
  tools?: string[];
}

export type OnBusy = 'queue' | 'interrupt' | 'reject';

/** The result of a turn. Every member is always present; output and blocks are capped, and result_ref leads to the whole. */
export interface AgentStepOutput {
  turn_id: string;
  session_id: string;
  agent: string;
  agent_instance_id: string;
  status: TurnStatus;
  output: string;
  blocks: Block[];
  /** null when no schema was asked for */
  structured: unknown;
  /** artifact://<uuid> */
  result_ref: string;
  /** {type,row_count,sample}; null without data */
  result_preview: unknown;
  tool_calls: ToolCallNote[];
  usage: Usage;
  stop_reason: StopReason;
  error: Failure | null;
  stream_id: string;
  execution_time_ms: number;
  model: string;
}

export type TurnStatus = 'completed' | 'failed' | 'cancelled';

/** Says in a result which tool was called and how it went. */
export interface ToolCallNote {
  id: string;
  tool: string;
  /** success or error */
  status: string;
  ref?: string;
  /** answered out of the result cache */
  cache_hit?: boolean;
  /** the arguments, where the agent has return_intermediate_steps */
  input?: unknown;
  /** what the model was answered, likewise */
  output?: unknown;
  /** input and output are too large for the result */
  truncated?: boolean;
}

/** Counts what a model call, or a turn, consumed. */
export interface Usage {
  /** cached ones included */
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  reasoning_tokens: number;
  cost_usd: number;
  /** some of it is estimated: a request was cut off before the provider said what it used */
  estimated?: boolean;
  /** some of it is of a model without a price: cost_usd lacks it */
  unpriced?: boolean;
}

/** waiting: for a person, or for a result that the caller provides. */
export type TurnStateName = 'queued' | 'running' | 'waiting' | 'completed' | 'failed' | 'cancelled';

export type StopReason = 'end_turn' | 'max_tokens' | 'content_filter' | 'cancelled' | 'model_error' | 'model_call_limit' | 'tool_call_limit' | 'token_limit' | 'cost_limit' | 'wall_time_limit' | 'iteration_limit' | 'structured_output' | 'approval_expired' | 'approval_required' | 'terminated' | 'refused' | 'internal_error';

/** An error as data: what a result, an event or a verdict carries. */
export interface Failure {
  /** one of the error types, or a stop reason */
  type: string;
  /** for a person; never a secret */
  message: string;
  /** whether the same request may succeed later */
  retryable: boolean;
  /** the tool that failed */
  tool?: string;
  /** the pipeline step that failed */
  step?: string;
  /** the field at fault */
  field?: string;
  faults?: Faults;
}

export type Faults = Fault[];

/** One thing that is wrong with a catalog document. */
export interface Fault {
  file?: string;
  /** from 1; 0: not known */
  line?: number;
  column?: number;
  /** its kind, tenant and name */
  document?: string;
  /** of the field, e.g. rules[2].when.expression */
  path?: string;
  message: string;
}

/** A turn that has ended: its result, and state besides. */
export interface EndedTurn {
  turn_id: string;
  session_id: string;
  agent: string;
  agent_instance_id: string;
  status: TurnStatus;
  output: string;
  blocks: Block[];
  /** null when no schema was asked for */
  structured: unknown;
  /** artifact://<uuid> */
  result_ref: string;
  /** {type,row_count,sample}; null without data */
  result_preview: unknown;
  tool_calls: ToolCallNote[];
  usage: Usage;
  stop_reason: StopReason;
  error: Failure | null;
  stream_id: string;
  execution_time_ms: number;
  model: string;
  /** the status again, so that one member tells of every turn */
  state: 'completed' | 'failed' | 'cancelled';
  mode?: Mode;
  fallback?: Fallback;
  /** the turn whose input it has */
  rerun_of?: string;
  /** of a rerun: the first step that was not taken over; left out if none was */
  from_step?: number;
  /** true: its agent is a draft, which is not in the catalog */
  draft?: boolean;
}

/** A turn that has not ended. Status repeats state so that a client may poll one field, whether or not the turn has ended. */
export interface TurnState {
  turn_id: string;
  session_id: string;
  stream_id: string;
  agent?: string;
  mode?: Mode;
  fallback?: Fallback;
  state?: string;
  status?: string;
  started_at?: string;
  last_event_index?: number;
  /** messages: 0 runs at once, 1 is next in line */
  position?: number;
  pending?: Approval[];
  /** the turn whose input it has */
  rerun_of?: string;
  /** of a rerun: the first step that was not taken over; left out if none was */
  from_step?: number;
  /** true: its agent is a draft, which is not in the catalog */
  draft?: boolean;
}

/** A tool call that waits for a person or, of another kind, for something else. */
export interface Approval {
  kind?: WaitKind;
  approval_id: string;
  turn_id: string;
  call_id: string;
  step: number;
  tool_name: string;
  args?: unknown;
  rule?: string;
  decision?: DecisionKind;
  by?: string;
  message?: string;
  /** this and the next two where approvals are listed */
  tenant?: string;
  session_id?: string;
  agent?: string;
  /** what the person is told besides the call */
  description?: string;
  allowed_decisions?: DecisionKind[];
  expires_at?: string;
  on_expiry?: Expiry;
  remember?: RememberScope;
  /** once resolved: the decision stands for later calls */
  remembered?: boolean;
  /** edit: what it runs with */
  decided_args?: unknown;
  created_at?: string;
  decided_at?: string;
}

/** provide: of a client-side tool, whose result nobody decides about */
export type DecisionKind = 'approve' | 'edit' | 'reject' | 'respond' | 'provide';

/** what is waited for instead of a decision */
export type WaitKind = 'client_tool';

export type Expiry = 'reject' | 'approve' | 'end';

export type RememberScope = 'call' | 'tool' | 'off';

/** One entry of a turn's event log: meta, type, and the fields of its type. */
export interface Event {
  meta: EventMeta;
  type: EventType;
  status?: EventStatusValue;
  /** status: why it waits, or the stop reason */
  reason?: string;
  result?: AgentStepOutput;
  /** token; tool_progress */
  text?: string;
  content_blocks?: Block[];
  /** tool_* */
  tool_call_id?: string;
  /** tool_* */
  tool_name?: string;
  /** tool_start: the arguments */
  input?: unknown;
  /** tool_end: what the model sees, bounded */
  output?: unknown;
  /** tool_end: cas:// reference of a large output */
  ref?: string;
  /** tool_end */
  failed?: boolean;
  /** tool_start, tool_end: the node that the tool comes from */
  source_node_name?: string;
  /** tool_start, tool_end */
  is_from_toolkit?: boolean;
  approval?: Approval;
  /** route: which agent answers, and why */
  route?: unknown;
  usage?: Usage;
  /** usage */
  model?: string;
  /** reset: whose events are void */
  producer?: string;
  /** reset: from this index on */
  from_index?: number;
  error?: Failure;
}

/** Addresses an event. The log assigns StreamID, EventIndex and Time; producers leave them empty. */
export interface EventMeta {
  stream_id: string;
  /** contiguous from 1 within the stream */
  event_index: number;
  turn_id: string;
  /** the producer's epoch */
  attempt: number;
  producer?: string;
  agent_instance_id?: string;
  time: string;
}

export type EventType = 'status' | 'token' | 'content' | 'tool_start' | 'tool_progress' | 'tool_end' | 'approval_requested' | 'approval_resolved' | 'input_requested' | 'input_resolved' | 'route' | 'usage' | 'reset' | 'error';

export type EventStatusValue = 'RUNNING' | 'WAITING' | 'COMPLETED' | 'FAILED' | 'CANCELLED';

/** Answers one approval. */
export interface Decision {
  approval_id: string;
  decision: DecisionKind;
  /** edit: the arguments to run with */
  args?: unknown;
  /** reject: why; respond: the tool's answer */
  message?: string;
  remember?: boolean;
  /** who decided, where no credential says so */
  by?: string;
}

/** Asks a turn or a run to stop. */
export interface CancelRequest {
  reason?: string;
  by?: string;
}

/** The result of a client-side tool: exactly one of result and error is given. */
export interface ProvidedResult {
  tool_call_id: string;
  /** any JSON */
  result?: unknown;
  /** what went wrong, for the model to read */
  error?: string;
}

/** A part of a session's transcript, oldest first. */
export interface MessagePage {
  session_id: string;
  messages: SessionMessage[];
  /** pass as after for the next page; the position of the last message here */
  next: number;
  more: boolean;
}

/** One message of a transcript. */
export interface SessionMessage {
  /** from 1, ascending within the session */
  position: number;
  turn_id: string;
  created_at: string;
  role: Role;
  blocks: Block[];
}

/** A session in a list. Agent, user, channel and status are those of its newest turn. */
export interface SessionSummary {
  session_id: string;
  /** left out: it has none */
  title?: string;
  /** of the first turn that is kept */
  summary: string;
  /** that it has had, whether or not they are kept */
  turns: number;
  agent: string;
  user_id?: string;
  channel?: string;
  status: TurnStateName;
  last_turn_id: string;
  /** the session whose transcript it begins with a copy of */
  forked_from?: string;
  created_at: string;
  /** when its newest turn ended, or was accepted if it has not ended */
  last_active_at: string;
}

/** Asks for a copy of a session's transcript. */
export interface ForkRequest {
  /** the last turn that is copied; left out: all are */
  turn_id?: string;
  /** of the new session, which has no turns yet; left out: a new id */
  session_id?: string;
}

/** A session that begins with a copy of another one's transcript. */
export interface SessionForked {
  session_id: string;
  forked_from: string;
  /** the last turn that was copied */
  turn_id?: string;
  /** that were copied */
  turns: number;
  /** that were copied */
  messages: number;
}
