package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// request is what a client asked for.
type request struct {
	model      string // as the client calls it
	turn       agent.TurnRequest
	user       string // counts where the credential is nobody's own
	stream     bool
	usage      bool // the stream ends with the usage
	structured bool // the answer is a JSON document
	cancel     bool // the turn ends with the connection
	resumed    *resumedTurn
	derivedKey string // the idempotency key, where the client gave none
}

// parse reads a body. Members that are not known are ignored, those that are known are checked: the error names the member.
func parse(body []byte) (request, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return request{}, agent.Invalid("", "the body is empty: want a JSON object")
	}
	var err error
	o := object{err: &err}.within("", body)
	q := request{turn: agent.TurnRequest{History: agent.HistoryFresh}}
	for _, read := range []func(object){q.readModel, q.readOptions, q.readTools, q.readFormat, q.readMetadata, q.readMessages} {
		if err != nil {
			return request{}, err
		}
		read(o)
	}
	return q, err
}

// readModel reads which agent is asked: "analyst", or "analyst:fast" for another profile of its models.
func (q *request) readModel(o object) {
	q.model = member[string](o, "model")
	name, profile, _ := strings.Cut(q.model, ":")
	switch {
	case q.model == "":
		o.refuse("model", "is missing: name an agent, see GET /v1/models")
	case !agent.ValidName(name):
		o.fail(noModel(q.model))
	}
	q.turn.Agent, q.turn.Model = name, profile
}

func noModel(model string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "model", "the model %.140q does not exist", model)
}

func (q *request) readOptions(o object) {
	if n := member[int](o, "n"); !o.absent("n") && n != 1 {
		o.refuse("n", "want 1: an agent gives one answer")
	}
	if slices.ContainsFunc(member[[]string](o, "modalities"), func(m string) bool { return m != "text" }) {
		o.refuse("modalities", "want text alone")
	}
	q.stream = member[bool](o, "stream")
	q.usage = member[bool](o.object("stream_options"), "include_usage")
	q.user = member[string](o, "user")
}

// readFormat reads which shape the answer must have.
func (q *request) readFormat(o object) {
	format := o.object("response_format")
	if format.members == nil {
		return
	}
	switch kind := member[string](format, "type"); kind {
	case "text":
	case "json_object":
		q.structured, q.turn.OutputSchema = true, json.RawMessage(`{"type":"object"}`)
	case "json_schema":
		wrapped := format.object("json_schema")
		if wrapped.absent("schema") {
			wrapped.refuse("schema", "is missing")
		}
		q.structured, q.turn.OutputSchema = true, wrapped.members["schema"]
	default:
		format.refuse("type", "want text, json_object or json_schema, got %.60q", kind)
	}
}

// readMetadata reads what the turn is told of the request, and the session.
func (q *request) readMetadata(o object) {
	metadata := o.object("metadata")
	o.fail(q.setSession(metadata.at("session_id"), member[string](metadata, "session_id")))
	for name := range metadata.members {
		if name == "session_id" {
			continue
		}
		if q.turn.Context.Metadata == nil {
			q.turn.Context.Metadata = map[string]any{}
		}
		q.turn.Context.Metadata[name] = member[any](metadata, name)
	}
}

// setSession makes the turn one of a session.
func (q *request) setSession(field, session string) error {
	id := agent.SessionID(session)
	switch {
	case session == "":
		return nil
	case !id.Valid():
		return agent.Invalid(field, "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case q.turn.SessionID != "" && q.turn.SessionID != id:
		return agent.Invalid(field, "differs from metadata.session_id")
	}
	q.turn.SessionID, q.turn.History = id, agent.HistoryLoad
	return nil
}

// headers reads what stands beside the body.
func (q *request) headers(r *http.Request) error {
	if q.turn.IdempotencyKey = r.Header.Get("Idempotency-Key"); len(q.turn.IdempotencyKey) > 256 {
		return agent.Invalid("Idempotency-Key", "is %d bytes, at most 256", len(q.turn.IdempotencyKey))
	}
	switch on := r.Header.Get(headerDisconnect); on {
	case "", "continue":
	case "cancel":
		q.cancel = true
	default:
		return agent.Invalid(headerDisconnect, "want cancel or continue, got %.60q", on)
	}
	return q.setSession(headerSession, r.Header.Get(headerSession))
}

// dropKnownMessages leaves out what the session has already: everything up to the last message that is not the caller's.
func (q *request) dropKnownMessages() error {
	for i, m := range slices.Backward(q.turn.Messages) {
		switch m.Role {
		case agent.RoleAssistant, agent.RoleTool:
			q.turn.Messages = q.turn.Messages[i+1:]
			if len(q.turn.Messages) == 0 {
				return agent.Invalid("messages", "hold nothing new for the session behind the last assistant or tool message")
			}
			return nil
		case agent.RoleSystem, agent.RoleUser:
		}
	}
	return nil
}

// object is a JSON object of a request, and where it stands.
type object struct {
	path    string
	members map[string]json.RawMessage // nil: there is none
	err     *error                     // the first fault of the request
}

// fail notes a fault, unless there was one before. nil is none.
func (o object) fail(err error) {
	if *o.err == nil {
		*o.err = err
	}
}

// refuse notes that a member is invalid.
func (o object) refuse(name, format string, args ...any) {
	o.fail(agent.Invalid(o.at(name), format, args...))
}

// within reads another object of the same request.
func (o object) within(path string, raw json.RawMessage) object {
	inner := object{path: path, err: o.err}
	o.fail(prefixField(path, strictjson.Decode(raw, &inner.members)))
	if inner.members == nil {
		o.fail(agent.Invalid(path, "want an object, got null"))
	}
	return inner
}

// at is the path of a member.
func (o object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

func (o object) absent(name string) bool {
	raw, ok := o.members[name]
	return !ok || string(raw) == "null"
}

// object is a member that is an object itself; one that is absent has no members.
func (o object) object(name string) object {
	if o.absent(name) {
		return object{path: o.at(name), err: o.err}
	}
	return o.within(o.at(name), o.members[name])
}

// member reads a member. One that is absent, null or of another type is the zero value; the last is a fault.
func member[T any](o object, name string) (v T) {
	if !o.absent(name) {
		o.fail(prefixField(o.at(name), strictjson.Decode(o.members[name], &v)))
	}
	return v
}

// prefixField puts a path before the field of an error.
func prefixField(path string, err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	c := *e
	switch {
	case path == "":
	case c.Field == "" || strings.HasPrefix(c.Field, "["):
		c.Field = path + c.Field
	default:
		c.Field = path + "." + c.Field
	}
	const longest = 256 // the caller chose the names: do not let him choose the size of our answer
	c.Field = clip.Bytes(c.Field, longest)
	return &c
}
