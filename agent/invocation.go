package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"reflect"
	"strings"
)

// refScheme begins the reference of stored content: cas://sha256:<hex>.
const refScheme = "cas://"

// Invocation gives a tool or middleware the facts of the call it serves. Its functions may be nil; the methods check for that.
type Invocation struct {
	Tenant         string
	TurnID         TurnID
	SessionID      SessionID
	UserID         string
	Step           int
	Attempt        int64  // the producer's epoch, 1 for the first
	IdempotencyKey string // the same for every attempt of this call
	Repeatable     bool   // calling twice has the effect of calling once: the tool is idempotent, or this call has no effects
	Settled        bool   // the result is fixed, as of a turn that was delegated and has ended: calling again changes nothing
	Progress       func(message string)

	Parameters json.RawMessage // of the tool's binding, with defaults, as its node's properties say: an object, or nil
	Auth       []PlanAuth      // what the binding's requests may use: references to secrets, never secrets

	// Workflow is the tag and owner of the workflow that the turn's job belongs to. Both are empty for a turn that is no job.
	Workflow WorkflowKey

	UserRole string
	Model    PlanModel // middleware: the model that is asked first

	// Ask makes a model call on a middleware's own behalf: Profile of the request is one of the plan's, empty for the turn's. Nothing of
	// it is streamed; what it costs is the step's. Nil: tools cannot.
	Ask func(ctx context.Context, req ModelRequest) (ModelReply, error)
	// Note returns what was kept with the session under a name, nil when nothing was; SetNote keeps up to 256 KiB of JSON. The session
	// runs one turn at a time, so nobody else writes meanwhile. Nil: there is no place.
	Note    func(ctx context.Context, name string) (json.RawMessage, error)
	SetNote func(ctx context.Context, name string, value json.RawMessage) error

	// Redact cleans JSON that a tool stores by itself, as middleware wants what it answers cleaned; an error forbids storing it. What it
	// changes must not be answered to calls that are cleaned otherwise. Nil: nothing is to be cleaned.
	Redact func(raw json.RawMessage) (json.RawMessage, error)
	// Toolset lists the tools that the turn is granted, deferred ones and those of dynamic toolkits included. Nil: none are known.
	Toolset func(ctx context.Context) ([]PlanTool, error)
	// InlineBytes is how long an output may be before it is moved to the blob store. 0: 32 KiB.
	InlineBytes int
	// Input loads the messages that the turn was asked with. Nil: there are none.
	Input func(ctx context.Context) ([]Message, error)
	// Open opens stored content of the tenant by its reference. Nil: nothing is stored.
	Open func(ctx context.Context, ref string) (io.ReadCloser, error)
}

// Report sends progress if anybody listens.
func (i Invocation) Report(message string) {
	if i.Progress != nil {
		i.Progress(message)
	}
}

// Parameter returns a parameter of the tool's binding as a value of fallback's type; for a nil fallback it is what encoding/json makes
// of it (string, float64, bool, []any, map[string]any). A parameter that is absent, null or of another type is the fallback. A tool
// that has to refuse what it cannot take decodes Parameters itself.
func (i Invocation) Parameter(name string, fallback any) any {
	var all map[string]json.RawMessage
	if len(i.Parameters) == 0 || json.Unmarshal(i.Parameters, &all) != nil {
		return fallback
	}
	raw, ok := all[name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return fallback
	}
	if fallback == nil {
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return fallback
		}
		return v
	}
	v := reflect.New(reflect.TypeOf(fallback))
	if json.Unmarshal(raw, v.Interface()) != nil {
		return fallback
	}
	return v.Elem().Interface()
}

// InputData returns a message that the turn was asked with, as JSON; 0 is the first. [CodeNotFound] when there is none of that index.
func (i Invocation) InputData(ctx context.Context, index int) (json.RawMessage, error) {
	messages, err := i.messages(ctx)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(messages) {
		return nil, Errorf(CodeNotFound, "read input", "there is no message %d: the turn has %d", index, len(messages))
	}
	data, err := json.Marshal(messages[index])
	if err != nil {
		return nil, Errorf(CodeInternal, "read input", "encode message %d: %w", index, err)
	}
	return data, nil
}

// OpenBinary opens the bytes of a block that the turn was asked with, by the block's id, or stored content of the tenant by its cas://
// reference. The caller closes it, before ctx ends. [CodeNotFound] when there is none; [CodeInvalid] for a block that holds no bytes,
// such as one with a URL.
func (i Invocation) OpenBinary(ctx context.Context, id string) (io.ReadCloser, error) {
	const op = "open binary"
	if strings.HasPrefix(id, refScheme) {
		if i.Open == nil {
			return nil, Errorf(CodeNotFound, op, "nothing is stored here")
		}
		return i.Open(ctx, id)
	}
	messages, err := i.messages(ctx)
	if err != nil {
		return nil, err
	}
	block := blockOf(messages, id)
	switch {
	case block == nil:
		return nil, Errorf(CodeNotFound, op, "the turn's input has no block %.100q", id)
	case block.Base64 == "":
		return nil, Errorf(CodeInvalid, op, "block %.100q, of type %s, holds no bytes", id, block.Type)
	}
	content, err := base64.StdEncoding.DecodeString(block.Base64)
	if err != nil {
		return nil, Errorf(CodeInvalid, op, "block %.100q: %w", id, err)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func blockOf(messages []Message, id string) *Block {
	for m := range messages {
		for b := range messages[m].Blocks {
			if block := &messages[m].Blocks[b]; block.ID == id && id != "" {
				return block
			}
		}
	}
	return nil
}

func (i Invocation) messages(ctx context.Context) ([]Message, error) {
	if i.Input == nil {
		return nil, nil
	}
	return i.Input(ctx)
}
