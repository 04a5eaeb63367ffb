"""Generated from the OpenAPI document by: go test ./clients -run TestTypes -update"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = [
    "ErrorBody",
    "TurnRequest",
    "RerunRequest",
    "ClientTool",
    "Message",
    "Role",
    "Block",
    "BlockType",
    "Annotation",
    "InvocationContext",
    "History",
    "Mode",
    "Fallback",
    "Limits",
    "OnBusy",
    "AgentStepOutput",
    "TurnStatus",
    "ToolCallNote",
    "Usage",
    "TurnStateName",
    "StopReason",
    "Failure",
    "Faults",
    "Fault",
    "EndedTurn",
    "TurnState",
    "Approval",
    "DecisionKind",
    "WaitKind",
    "Expiry",
    "RememberScope",
    "Event",
    "EventMeta",
    "EventType",
    "EventStatusValue",
    "Decision",
    "CancelRequest",
    "ProvidedResult",
    "MessagePage",
    "SessionMessage",
    "SessionSummary",
    "ForkRequest",
    "SessionForked",
]


class ErrorBody(TypedDict):
    """Every refusal has this body."""

    error: Failure


class TurnRequest(TypedDict, total=False):
    """Asks for one turn. Exactly one of message and messages is given."""

    turn_id: str
    agent: str  # empty: routing decides
    session_id: str  # empty: a session of its own, named after the turn
    message: str
    messages: list[Message]
    context: InvocationContext
    history: History
    mode: Mode
    model: str  # a profile that the agent lists
    limits: Limits
    channel: str
    idempotency_key: str
    output_schema: Any  # a JSON Schema: structured of the result satisfies it
    on_busy: OnBusy
    client_tools: list[ClientTool]  # tools that run at the caller, besides the agent's own
    draft: str  # an AgentInstance as YAML or JSON text, which answers this turn without being applied


class RerunRequest(TypedDict, total=False):
    """What is to be different from the turn that runs again. What is left out is as that turn's request had it."""

    from_step: int  # the steps of the turn before this one are taken over, and not done again; 0: none is
    agent: str
    model: str  # a profile that the agent lists
    prompt: str  # the system prompt in place of the agent's, for this turn alone
    draft: str  # an AgentInstance as YAML or JSON text, which answers this turn without being applied
    session_id: str  # of the branch, which must be new; empty: named after the new turn
    turn_id: str
    idempotency_key: str
    mode: Mode
    history: History
    context: InvocationContext
    limits: Limits
    output_schema: Any  # a JSON Schema
    client_tools: list[ClientTool]


class _ClientTool(TypedDict):
    name: str


class ClientTool(_ClientTool, total=False):
    """A tool that runs at the caller. A call of it makes the turn wait until its result is provided."""

    description: str
    parameters: Any  # a JSON Schema of an object: the arguments
    strict: bool
    expires_sec: int  # how long the turn waits for a result; 0: an hour


class Message(TypedDict):
    """A message: who speaks, in typed blocks."""

    role: Role
    blocks: list[Block]

Role = Literal["system", "user", "assistant", "tool"]


class _Block(TypedDict):
    type: BlockType


class Block(_Block, total=False):
    """One typed piece of a message, as LangChain v1 writes content blocks."""

    id: str  # of the block; of the call for tool_call, invalid_tool_call, server_tool_call
    text: str  # text
    annotations: list[Annotation]
    reasoning: str  # reasoning
    signature: str  # reasoning: the provider's proof, sent back verbatim
    url: str  # image, audio, file: exactly one of url, base64, file_id
    base64: str  # standard encoding; wants mime_type
    file_id: str  # an id at the provider
    mime_type: str  # e.g. image/png
    name: str  # tool blocks: the tool's name
    args: Any  # tool_call: an object; invalid_tool_call: the string as it came
    tool_call_id: str  # tool_result, server_tool_result: the call it answers
    status: str  # tool_result, server_tool_result: success or error
    output: Any  # tool_result, server_tool_result: any JSON
    ref: str  # tool_result: cas:// reference when the output was too large
    error: str  # invalid_tool_call: why
    value: Any  # non_standard: any JSON
    extras: Any  # provider-specific additions, carried verbatim

BlockType = Literal["text", "reasoning", "image", "audio", "file", "tool_call", "invalid_tool_call", "tool_result", "server_tool_call", "server_tool_result", "non_standard"]


class _Annotation(TypedDict):
    type: str


class Annotation(_Annotation, total=False):
    """Marks a span of a text block; the one type in use is 'citation' (LangChain v1)."""

    id: str
    url: str
    title: str
    start_index: int
    end_index: int
    cited_text: str
    extras: Any


class InvocationContext(TypedDict, total=False):
    """The envelope that routing sees."""

    tenant: str
    user_id: str
    user_role: str
    ui_page: str
    flags: dict[str, Any]
    metadata: dict[str, Any]

History = Literal["load", "fresh"]

Mode = Literal["durable", "direct"]

Fallback = Literal["limit", "worker", "session", "person", "agent", "provider", "duration", "trouble", "stop", "lost"]


class Limits(TypedDict, total=False):
    """Bound a turn; 0 means no bound of this kind. Those of a request can only lower those of the plan."""

    iterations: int  # rounds of the loop: a model call with its repetitions, and the tools it asked for
    model_calls: int  # requests to the provider, repetitions included
    tool_calls: int
    tokens: int  # input plus output, over all model calls
    cost_usd: float  # over all model calls
    wall_time_sec: int  # from the turn's start, human pauses not counted
    tools: list[str]

OnBusy = Literal["queue", "interrupt", "reject"]


class AgentStepOutput(TypedDict):
    """The result of a turn. Every member is always present; output and blocks are capped, and result_ref leads to the whole."""

    turn_id: str
    session_id: str
    agent: str
    agent_instance_id: str
    status: TurnStatus
    output: str
    blocks: list[Block]
    structured: Any  # null when no schema was asked for
    result_ref: str  # artifact://<uuid>
    result_preview: Any  # {type,row_count,sample}; null without data
    tool_calls: list[ToolCallNote]
    usage: Usage
    stop_reason: StopReason
    error: Failure | None
    stream_id: str
    execution_time_ms: int
    model: str

TurnStatus = Literal["completed", "failed", "cancelled"]


class _ToolCallNote(TypedDict):
    id: str
    tool: str
    status: str  # success or error


class ToolCallNote(_ToolCallNote, total=False):
    """Says in a result which tool was called and how it went."""

    ref: str
    cache_hit: bool  # answered out of the result cache
    input: Any  # the arguments, where the agent has return_intermediate_steps
    output: Any  # what the model was answered, likewise
    truncated: bool  # input and output are too large for the result


class _Usage(TypedDict):
    input_tokens: int  # cached ones included
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost_usd: float


class Usage(_Usage, total=False):
    """Counts what a model call, or a turn, consumed."""

    estimated: bool  # some of it is estimated: a request was cut off before the provider said what it used
    unpriced: bool  # some of it is of a model without a price: cost_usd lacks it

TurnStateName = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]

StopReason = Literal["end_turn", "max_tokens", "content_filter", "cancelled", "model_error", "model_call_limit", "tool_call_limit", "token_limit", "cost_limit", "wall_time_limit", "iteration_limit", "structured_output", "approval_expired", "approval_required", "terminated", "refused", "internal_error"]


class _Failure(TypedDict):
    type: str  # one of the error types, or a stop reason
    message: str  # for a person; never a secret
    retryable: bool  # whether the same request may succeed later


class Failure(_Failure, total=False):
    """An error as data: what a result, an event or a verdict carries."""

    tool: str  # the tool that failed
    step: str  # the pipeline step that failed
    field: str  # the field at fault
    faults: Faults

Faults = list["Fault"]


class _Fault(TypedDict):
    message: str


class Fault(_Fault, total=False):
    """One thing that is wrong with a catalog document."""

    file: str
    line: int  # from 1; 0: not known
    column: int
    document: str  # its kind, tenant and name
    path: str  # of the field, e.g. rules[2].when.expression


class _EndedTurn(TypedDict):
    turn_id: str
    session_id: str
    agent: str
    agent_instance_id: str
    status: TurnStatus
    output: str
    blocks: list[Block]
    structured: Any  # null when no schema was asked for
    result_ref: str  # artifact://<uuid>
    result_preview: Any  # {type,row_count,sample}; null without data
    tool_calls: list[ToolCallNote]
    usage: Usage
    stop_reason: StopReason
    error: Failure | None
    stream_id: str
    execution_time_ms: int
    model: str
    state: Literal["completed", "failed", "cancelled"]  # the status again, so that one member tells of every turn


class EndedTurn(_EndedTurn, total=False):
    """A turn that has ended: its result, and state besides."""

    mode: Mode
    fallback: Fallback
    rerun_of: str  # the turn whose input it has
    from_step: int  # of a rerun: the first step that was not taken over; left out if none was
    draft: bool  # true: its agent is a draft, which is not in the catalog


class _TurnState(TypedDict):
    turn_id: str
    session_id: str
    stream_id: str


class TurnState(_TurnState, total=False):
    """A turn that has not ended. Status repeats state so that a client may poll one field, whether or not the turn has ended."""

    agent: str
    mode: Mode
    fallback: Fallback
    state: str
    status: str
    started_at: str
    last_event_index: int
    position: int  # messages: 0 runs at once, 1 is next in line
    pending: list[Approval]
    rerun_of: str  # the turn whose input it has
    from_step: int  # of a rerun: the first step that was not taken over; left out if none was
    draft: bool  # true: its agent is a draft, which is not in the catalog


class _Approval(TypedDict):
    approval_id: str
    turn_id: str
    call_id: str
    step: int
    tool_name: str


class Approval(_Approval, total=False):
    """A tool call that waits for a person or, of another kind, for something else."""

    kind: WaitKind
    args: Any
    rule: str
    decision: DecisionKind
    by: str
    message: str
    tenant: str  # this and the next two where approvals are listed
    session_id: str
    agent: str
    description: str  # what the person is told besides the call
    allowed_decisions: list[DecisionKind]
    expires_at: str
    on_expiry: Expiry
    remember: RememberScope
    remembered: bool  # once resolved: the decision stands for later calls
    decided_args: Any  # edit: what it runs with
    created_at: str
    decided_at: str

DecisionKind = Literal["approve", "edit", "reject", "respond", "provide"]

WaitKind = Literal["client_tool"]

Expiry = Literal["reject", "approve", "end"]

RememberScope = Literal["call", "tool", "off"]


class _Event(TypedDict):
    meta: EventMeta
    type: EventType


class Event(_Event, total=False):
    """One entry of a turn's event log: meta, type, and the fields of its type."""

    status: EventStatusValue
    reason: str  # status: why it waits, or the stop reason
    result: AgentStepOutput
    text: str  # token; tool_progress
    content_blocks: list[Block]
    tool_call_id: str  # tool_*
    tool_name: str  # tool_*
    input: Any  # tool_start: the arguments
    output: Any  # tool_end: what the model sees, bounded
    ref: str  # tool_end: cas:// reference of a large output
    failed: bool  # tool_end
    source_node_name: str  # tool_start, tool_end: the node that the tool comes from
    is_from_toolkit: bool  # tool_start, tool_end
    approval: Approval
    route: Any  # route: which agent answers, and why
    usage: Usage
    model: str  # usage
    producer: str  # reset: whose events are void
    from_index: int  # reset: from this index on
    error: Failure


class _EventMeta(TypedDict):
    stream_id: str
    event_index: int  # contiguous from 1 within the stream
    turn_id: str
    attempt: int  # the producer's epoch
    time: str


class EventMeta(_EventMeta, total=False):
    """Addresses an event. The log assigns StreamID, EventIndex and Time; producers leave them empty."""

    producer: str
    agent_instance_id: str

EventType = Literal["status", "token", "content", "tool_start", "tool_progress", "tool_end", "approval_requested", "approval_resolved", "input_requested", "input_resolved", "route", "usage", "reset", "error"]

EventStatusValue = Literal["RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]


class _Decision(TypedDict):
    approval_id: str
    decision: DecisionKind


class Decision(_Decision, total=False):
    """Answers one approval."""

    args: Any  # edit: the arguments to run with
    message: str  # reject: why; respond: the tool's answer
    remember: bool
    by: str  # who decided, where no credential says so


class CancelRequest(TypedDict, total=False):
    """Asks a turn or a run to stop."""

    reason: str
    by: str


class _ProvidedResult(TypedDict):
    tool_call_id: str


class ProvidedResult(_ProvidedResult, total=False):
    """The result of a client-side tool: exactly one of result and error is given."""

    result: Any  # any JSON
    error: str  # what went wrong, for the model to read


class MessagePage(TypedDict):
    """A part of a session's transcript, oldest first."""

    session_id: str
    messages: list[SessionMessage]
    next: int  # pass as after for the next page; the position of the last message here
    more: bool


class SessionMessage(TypedDict):
    """One message of a transcript."""

    position: int  # from 1, ascending within the session
    turn_id: str
    created_at: str
    role: Role
    blocks: list[Block]


class _SessionSummary(TypedDict):
    session_id: str
    summary: str  # of the first turn that is kept
    turns: int  # that it has had, whether or not they are kept
    agent: str
    status: TurnStateName
    last_turn_id: str
    created_at: str
    last_active_at: str  # when its newest turn ended, or was accepted if it has not ended


class SessionSummary(_SessionSummary, total=False):
    """A session in a list. Agent, user, channel and status are those of its newest turn."""

    title: str  # left out: it has none
    user_id: str
    channel: str
    forked_from: str  # the session whose transcript it begins with a copy of


class ForkRequest(TypedDict, total=False):
    """Asks for a copy of a session's transcript."""

    turn_id: str  # the last turn that is copied; left out: all are
    session_id: str  # of the new session, which has no turns yet; left out: a new id


class _SessionForked(TypedDict):
    session_id: str
    forked_from: str
    turns: int  # that were copied
    messages: int  # that were copied


class SessionForked(_SessionForked, total=False):
    """A session that begins with a copy of another one's transcript."""

    turn_id: str  # the last turn that was copied
