package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// History says whether a turn sees its conversation so far.
type History string

// HistoryLoad, the default, loads the conversation; HistoryFresh starts without it.
const (
	HistoryLoad  History = "load"
	HistoryFresh History = "fresh"
)

// Mode says how a turn is run.
type Mode string

// ModeDurable, the default, runs a turn as a Temporal workflow; ModeDirect runs it without Temporal.
const (
	ModeDurable Mode = "durable"
	ModeDirect  Mode = "direct"
)

// Fallback is the reason why a turn that should be direct runs as a workflow. It is empty for other turns.
type Fallback string

// The reasons for a fallback.
const (
	FallbackLimit    Fallback = "limit"    // its process already runs turn.direct_turns direct turns
	FallbackWorker   Fallback = "worker"   // its process runs no turns (worker.enabled is false)
	FallbackSession  Fallback = "session"  // another turn held its session
	FallbackPerson   Fallback = "person"   // it waits for a decision or the result of a client-side tool
	FallbackAgent    Fallback = "agent"    // it delegates to another agent
	FallbackProvider Fallback = "provider" // it waits for its model provider
	FallbackDuration Fallback = "duration" // it lasts longer than turn.direct_max
	FallbackTrouble  Fallback = "trouble"  // the database or another dependency was unavailable
	FallbackStop     Fallback = "stop"     // its process was stopped
	FallbackLost     Fallback = "lost"     // its process died or did not renew its lease
)

// Reason returns the reason as text for the status event RUNNING, empty if there is no fallback.
func (f Fallback) Reason() string {
	switch f {
	case "":
		return ""
	case FallbackLimit:
		return "runs as a workflow: this process runs as many direct turns as turn.direct_turns allows"
	case FallbackWorker:
		return "runs as a workflow: this process runs no turns"
	case FallbackSession:
		return "runs as a workflow: it waited for its session"
	case FallbackPerson:
		return "goes on as a workflow: it waits for a person or a client-side tool"
	case FallbackAgent:
		return "goes on as a workflow: it asks another agent"
	case FallbackProvider:
		return "goes on as a workflow: it waits for its model provider"
	case FallbackDuration:
		return "goes on as a workflow: it lasts longer than turn.direct_max"
	case FallbackTrouble:
		return "goes on as a workflow: something that it needs was away"
	case FallbackStop:
		return "goes on as a workflow: its process stops"
	case FallbackLost:
		return "goes on as a workflow: its process died or was not heard of"
	default:
		return "runs as a workflow: " + string(f)
	}
}

// OnBusy says what a turn does while its session runs another turn.
type OnBusy string

// The values of OnBusy. OnBusyQueue is the default.
const (
	OnBusyQueue     OnBusy = "queue"
	OnBusyInterrupt OnBusy = "interrupt"
	OnBusyReject    OnBusy = "reject"
)

// TurnRequest is a request to run a turn. It is the input of the workflow AgentTurn and the body of POST /v1/turns. Exactly one of Message and
// Messages is set.
type TurnRequest struct {
	TurnID         TurnID            `json:"turn_id,omitempty"`
	Agent          string            `json:"agent,omitempty"`      // empty: chosen by routing
	SessionID      SessionID         `json:"session_id,omitempty"` // empty: a new session with the ID of the turn
	Message        string            `json:"message,omitempty"`
	Messages       []Message         `json:"messages,omitempty"`
	Context        InvocationContext `json:"context,omitzero"`
	History        History           `json:"history,omitempty"`
	Mode           Mode              `json:"mode,omitempty"`
	Model          string            `json:"model,omitempty"` // a profile of the plan
	Limits         *Limits           `json:"limits,omitempty"`
	StreamTo       *StreamTo         `json:"stream_to,omitempty"`
	Channel        string            `json:"channel,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	OutputSchema   json.RawMessage   `json:"output_schema,omitempty"`
	OnBusy         OnBusy            `json:"on_busy,omitempty"`
	ClientTools    []ClientTool      `json:"client_tools,omitempty"` // additional tools, whose results the caller provides

	Approvals ApprovalPolicy `json:"-"` // set by the channel or the schedule, not by the caller
	Rerun     *Rerun         `json:"-"` // the turn that this request reruns; may be nil
	Draft     *Draft         `json:"-"` // replaces the agent of the catalog; may be nil
}

// Draft is the document of an agent that a turn tries out before it is applied.
type Draft struct {
	Text string // YAML or JSON: one AgentInstance

	// The catalog sets these fields when it compiles Text.
	Agent    string
	PlanHash string
	Revision int64 // of the catalog when the plan was compiled
}

// newDraft returns the draft of a text, nil if the text is empty.
func newDraft(text string) *Draft {
	if text == "" {
		return nil
	}
	return &Draft{Text: text}
}

// TurnBody is the body of POST /v1/turns: a request with an optional draft of the agent.
type TurnBody struct {
	TurnRequest

	Draft string `json:"draft,omitempty"` // an AgentInstance as YAML or JSON, used only for this turn
}

// Request returns the request including the draft.
func (b *TurnBody) Request() TurnRequest {
	r := b.TurnRequest
	r.Draft = newDraft(b.Draft)
	return r
}

// InvocationContext is the context of a request for routing.
type InvocationContext struct {
	Tenant   string         `json:"tenant,omitempty"`
	UserID   string         `json:"user_id,omitempty"`
	UserRole string         `json:"user_role,omitempty"`
	UIPage   string         `json:"ui_page,omitempty"`
	Flags    map[string]any `json:"flags,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// TenantName returns the tenant, [DefaultTenant] if the context names none.
func (c *InvocationContext) TenantName() string {
	return cmp.Or(c.Tenant, DefaultTenant)
}

// StreamTo names a workflow that receives the turn's token batches as signals.
type StreamTo struct {
	WorkflowID string `json:"workflow_id"`
	Signal     string `json:"signal"`
	IntervalMS int    `json:"interval_ms,omitempty"` // 100–1,000; 0: 250
}

// Input returns the input messages: those of the rerun turn, Messages, or Message as a user message.
func (r *TurnRequest) Input() []Message {
	switch {
	case r.Rerun != nil:
		return r.Rerun.Input
	case len(r.Messages) > 0:
		return r.Messages
	default:
		return []Message{UserText(r.Message)}
	}
}

// Validate checks the request. Field of its error is the invalid field. maxBytes bounds the input messages; 0 means no bound.
func (r *TurnRequest) Validate(maxBytes int) error {
	dropNull(&r.OutputSchema)
	switch {
	case strings.TrimSpace(r.Message) == "" && len(r.Messages) == 0 && r.Rerun == nil:
		return Invalid("message", "is empty: give message or messages")
	case r.Message != "" && len(r.Messages) > 0:
		return Invalid("messages", "give message or messages, not both")
	case r.SessionID != "" && !r.SessionID.Valid():
		return Invalid("session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case r.TurnID != "" && !ValidName(string(r.TurnID)):
		return Invalid("turn_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case r.TurnID == "." || r.TurnID == "..":
		return Invalid("turn_id", "is %q, which no path of a URL can hold", r.TurnID)
	case r.Agent != "" && !ValidName(r.Agent):
		return Invalid("agent", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case r.Context.Tenant != "" && !ValidName(r.Context.Tenant):
		return Invalid("context.tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case len(r.IdempotencyKey) > 256:
		return Invalid("idempotency_key", "is %d bytes, at most 256", len(r.IdempotencyKey))
	}
	if err := r.validateEnums(); err != nil {
		return err
	}
	size := len(r.Message)
	calls := map[CallID]bool{}
	for i := range r.Messages {
		if err := r.Messages[i].Validate(fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
		if err := r.Messages[i].checkToolResults(fmt.Sprintf("messages[%d]", i), calls); err != nil {
			return err
		}
		for j := range r.Messages[i].Blocks {
			b := &r.Messages[i].Blocks[j]
			size += len(b.Text) + len(b.Base64) + len(b.Output) + len(b.Args) + len(b.Value)
		}
	}
	if maxBytes > 0 && size > maxBytes {
		return FieldErrorf(CodeOverflow, "message", "is %d bytes, at most %d", size, maxBytes)
	}
	if r.Limits != nil {
		if err := r.Limits.Validate("limits"); err != nil {
			return err
		}
	}
	if err := r.Approvals.Validate("approvals"); err != nil {
		return err
	}
	return ValidateClientTools("client_tools", r.ClientTools)
}

func (r *TurnRequest) validateEnums() error {
	switch r.History {
	case "", HistoryLoad, HistoryFresh:
	default:
		return Invalid("history", "want load or fresh, got %.60q", r.History)
	}
	switch r.Mode {
	case "", ModeDurable, ModeDirect:
	default:
		return Invalid("mode", "want durable or direct, got %.60q", r.Mode)
	}
	switch r.OnBusy {
	case "", OnBusyQueue, OnBusyInterrupt, OnBusyReject:
	default:
		return Invalid("on_busy", "want queue, interrupt or reject, got %.60q", r.OnBusy)
	}
	if s := r.StreamTo; s != nil {
		switch {
		case s.WorkflowID == "":
			return Invalid("stream_to.workflow_id", "is empty")
		case s.Signal == "":
			return Invalid("stream_to.signal", "is empty")
		case s.IntervalMS != 0 && (s.IntervalMS < 100 || s.IntervalMS > 1000):
			return Invalid("stream_to.interval_ms", "is %d, want 100 to 1,000", s.IntervalMS)
		}
	}
	return nil
}

// dropNull sets a document that is null to nil, because typed clients send null for an unset optional field.
func dropNull(document *json.RawMessage) {
	if string(*document) == "null" {
		*document = nil
	}
}
