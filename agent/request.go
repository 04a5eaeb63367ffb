package agent

import (
	"encoding/json"
	"fmt"
	"strings"
)

// History says whether a turn sees its conversation.
type History string

// HistoryLoad is the default; HistoryFresh starts clean.
const (
	HistoryLoad  History = "load"
	HistoryFresh History = "fresh"
)

// Mode says how a turn is driven.
type Mode string

// ModeDurable, the default, runs the turn as a workflow; ModeDirect without Temporal.
const (
	ModeDurable Mode = "durable"
	ModeDirect  Mode = "direct"
)

// Fallback says why a turn that was to be direct runs as a workflow; empty: it was not to be direct, or it is direct.
type Fallback string

// The reasons for a fallback.
const (
	FallbackLimit    Fallback = "limit"    // its process runs turn.direct_turns direct turns already
	FallbackWorker   Fallback = "worker"   // the process that took it runs no turns (worker.enabled is false)
	FallbackSession  Fallback = "session"  // another turn held its session
	FallbackPerson   Fallback = "person"   // it waits for a decision or for the result of a client-side tool
	FallbackAgent    Fallback = "agent"    // it asks another agent
	FallbackProvider Fallback = "provider" // it waits for its model provider
	FallbackDuration Fallback = "duration" // it lasts longer than turn.direct_max
	FallbackTrouble  Fallback = "trouble"  // the database, or something else that it needs, was away
	FallbackStop     Fallback = "stop"     // its process was stopped
	FallbackLost     Fallback = "lost"     // its process died, or was not heard of for as long as its lease
)

// Reason says in words why a turn is not direct, for its status RUNNING; empty for no fallback.
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

// OnBusy says what a turn does when its session is running another one.
type OnBusy string

// The three answers to a busy session; OnBusyQueue is the default.
const (
	OnBusyQueue     OnBusy = "queue"
	OnBusyInterrupt OnBusy = "interrupt"
	OnBusyReject    OnBusy = "reject"
)

// TurnRequest asks for one turn. It is the input of the workflow AgentTurn, typed by hand on the command line, and the body of
// POST /v1/turns. Exactly one of Message and Messages is given.
type TurnRequest struct {
	TurnID         TurnID            `json:"turn_id,omitempty"`
	Agent          string            `json:"agent,omitempty"`      // empty: routing decides
	SessionID      SessionID         `json:"session_id,omitempty"` // empty: a session of its own, named after the turn
	Message        string            `json:"message,omitempty"`
	Messages       []Message         `json:"messages,omitempty"`
	Context        InvocationContext `json:"context,omitzero"`
	History        History           `json:"history,omitempty"`
	Mode           Mode              `json:"mode,omitempty"`
	Model          string            `json:"model,omitempty"` // must be on the plan's list
	Limits         *Limits           `json:"limits,omitempty"`
	StreamTo       *StreamTo         `json:"stream_to,omitempty"`
	Channel        string            `json:"channel,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	OutputSchema   json.RawMessage   `json:"output_schema,omitempty"`
	OnBusy         OnBusy            `json:"on_busy,omitempty"`
	ClientTools    []ClientTool      `json:"client_tools,omitempty"` // the turn may call them besides the agent's own; the caller provides results

	Approvals ApprovalPolicy `json:"-"` // set by the channel or the schedule, not by a caller
	Rerun     *Rerun         `json:"-"` // of another turn, whose input this request repeats; nil: of none
	Draft     *Draft         `json:"-"` // answers in place of the catalog's agent; nil: there is none
}

// Draft is an agent's document that a turn tries before it is applied.
type Draft struct {
	Text string // YAML or JSON: one AgentInstance

	// Set by the catalog, which compiles the text and does not list it.
	Agent    string
	PlanHash string
	Revision int64 // of the catalog that the plan was compiled with
}

// newDraft returns the draft of a text, nil if the text is empty.
func newDraft(text string) *Draft {
	if text == "" {
		return nil
	}
	return &Draft{Text: text}
}

// TurnBody is the body of POST /v1/turns: a request, and the draft of the agent that answers it if the caller tries one.
type TurnBody struct {
	TurnRequest

	Draft string `json:"draft,omitempty"` // an AgentInstance as YAML or JSON, for this turn alone
}

// Request returns the request with its draft.
func (b *TurnBody) Request() TurnRequest {
	r := b.TurnRequest
	r.Draft = newDraft(b.Draft)
	return r
}

// InvocationContext is the envelope that routing sees.
type InvocationContext struct {
	Tenant   string         `json:"tenant,omitempty"`
	UserID   string         `json:"user_id,omitempty"`
	UserRole string         `json:"user_role,omitempty"`
	UIPage   string         `json:"ui_page,omitempty"`
	Flags    map[string]any `json:"flags,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// TenantName is the tenant, [DefaultTenant] when the context names none.
func (c *InvocationContext) TenantName() string {
	if c.Tenant == "" {
		return DefaultTenant
	}
	return c.Tenant
}

// StreamTo names the workflow that receives a turn's token batches as signals.
type StreamTo struct {
	WorkflowID string `json:"workflow_id"`
	Signal     string `json:"signal"`
	IntervalMS int    `json:"interval_ms,omitempty"` // 100–1,000; 0: 250
}

// Input returns the inbound messages: Messages, or Message as one user message, or those of the turn that the request reruns.
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

// Validate checks shape and bounds; the error names the field. maxBytes bounds the inbound text, 0 for no bound.
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
	asked := map[CallID]bool{}
	for i := range r.Messages {
		if err := r.Messages[i].Validate(fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
		if err := r.Messages[i].answers(fmt.Sprintf("messages[%d]", i), asked); err != nil {
			return err
		}
		for j := range r.Messages[i].Blocks {
			b := &r.Messages[i].Blocks[j]
			size += len(b.Text) + len(b.Base64) + len(b.Output) + len(b.Args) + len(b.Value)
		}
	}
	if maxBytes > 0 && size > maxBytes {
		e := Invalid("message", "is %d bytes, at most %d", size, maxBytes)
		e.Code = CodeOverflow
		return e
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

// dropNull removes a document that is null: programs with typed clients send null for an optional field that is not set.
func dropNull(document *json.RawMessage) {
	if string(*document) == "null" {
		*document = nil
	}
}
