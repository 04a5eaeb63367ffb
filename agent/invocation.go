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

// refScheme is the prefix of references to stored content: cas://sha256:<hex>.
const refScheme = "cas://"

// Invocation describes the call that a tool or middleware serves. Its functions may be nil; the methods check that.
type Invocation struct {
	Tenant         string
	TurnID         TurnID
	SessionID      SessionID
	UserID         string
	Step           int
	Attempt        int64  // the producer's epoch, 1 for the first
	IdempotencyKey string // all attempts of the call share it
	Repeatable     bool   // the call may safely be repeated: the tool is idempotent, or the call has no effects
	Settled        bool   // the result is final, for example of a delegated turn that has ended; repeating the call changes nothing
	Progress       func(message string)

	Parameters json.RawMessage // of the tool's binding, including defaults: an object or nil
	Auth       []PlanAuth      // the binding's auth profiles, with references to secrets

	// Workflow is the tag and owner of the workflow that the turn's job belongs to. They are empty if the turn is not a job.
	Workflow WorkflowKey

	UserRole string
	Model    PlanModel // for middleware: the model of the call

	// Ask makes a separate model call for middleware. Profile of the request is a profile of the plan, empty for that of the turn. The reply is not
	// streamed. Its cost is part of the step's. Ask is nil for tools.
	Ask func(ctx context.Context, req ModelRequest) (ModelReply, error)
	// Note returns the note that the session has under a name, nil if there is none. SetNote stores a note of up to 256 KiB of JSON. A session runs
	// one turn at a time, so there are no concurrent writes. Both are nil if notes cannot be stored.
	Note    func(ctx context.Context, name string) (json.RawMessage, error)
	SetNote func(ctx context.Context, name string, value json.RawMessage) error

	// Redact redacts JSON that a tool stores itself, like middleware redacts its results. If it fails, the JSON must not be stored. Redacted JSON must
	// not be returned to calls with other redaction rules. Nil: there is nothing to redact.
	Redact func(raw json.RawMessage) (json.RawMessage, error)
	// Toolset returns the tools that the turn is granted, including deferred tools and those of dynamic toolkits. Nil: they are unknown.
	Toolset func(ctx context.Context) ([]PlanTool, error)
	// InlineBytes is the maximum size of an output that is not moved to the blob store. 0: 32 KiB.
	InlineBytes int
	// Input loads the input messages of the turn. Nil: there are none.
	Input func(ctx context.Context) ([]Message, error)
	// Open opens stored content of the tenant by its reference. Nil: there is no stored content.
	Open func(ctx context.Context, ref string) (io.ReadCloser, error)
}

// Report calls Progress, if it is set.
func (i Invocation) Report(message string) {
	if i.Progress != nil {
		i.Progress(message)
	}
}

// Parameter returns a parameter of the tool's binding as a value of fallback's type, or as decoded by encoding/json if fallback is nil. It returns
// fallback if the parameter is absent, null or of another type. A tool that must refuse invalid parameters decodes Parameters itself.
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

// InputData returns an input message of the turn as JSON. index 0 is the first. Its error is [CodeNotFound] if there is no such message.
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

// OpenBinary opens the bytes of an input block of the turn by the block's ID, or stored content of the tenant by its cas:// reference. The caller must
// close it before ctx ends. Its error is [CodeNotFound] if there is none, [CodeInvalid] if the block has no bytes, for example only a URL.
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
	block := findBlock(messages, id)
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

// findBlock returns the block with an ID, nil if there is none.
func findBlock(messages []Message, id string) *Block {
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
