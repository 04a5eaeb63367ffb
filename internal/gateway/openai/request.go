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

// request is a parsed request.
type request struct {
	model              string // as the client names it
	turn               agent.TurnRequest
	user               string // used if the credential has no user
	stream             bool
	includeUsage       bool // whether the stream ends with the usage
	structured         bool // whether the answer is a JSON document
	cancelOnDisconnect bool
	resumed            *resumedTurn // nil: the request is a new turn
	derivedKey         string       // the idempotency key, if the request has none
}

// parse parses a body. It ignores unknown members and checks the others. An error names the member.
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

// readModel reads the agent, such as "analyst", or "analyst:fast" with one of its model profiles.
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

// readOptions reads the members with one value.
func (q *request) readOptions(o object) {
	if n := member[int](o, "n"); !o.isAbsent("n") && n != 1 {
		o.refuse("n", "want 1: an agent gives one answer")
	}
	if slices.ContainsFunc(member[[]string](o, "modalities"), func(m string) bool { return m != "text" }) {
		o.refuse("modalities", "want text alone")
	}
	q.stream = member[bool](o, "stream")
	q.includeUsage = member[bool](o.object("stream_options"), "include_usage")
	q.user = member[string](o, "user")
}

// readFormat reads the format of the answer: text, JSON, or JSON of a schema.
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
		named := format.object("json_schema")
		if named.isAbsent("schema") {
			named.refuse("schema", "is missing")
		}
		q.structured, q.turn.OutputSchema = true, named.members["schema"]
	default:
		format.refuse("type", "want text, json_object or json_schema, got %.60q", kind)
	}
}

// readMetadata reads the metadata of the turn. Its member session_id is the session.
func (q *request) readMetadata(o object) {
	metadata := o.object("metadata")
	o.fail(q.setSession(metadata.memberPath("session_id"), member[string](metadata, "session_id")))
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

// setSession sets the session of the turn. It does nothing for "".
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

// readHeaders reads Turnstone's headers.
func (q *request) readHeaders(r *http.Request) error {
	if q.turn.IdempotencyKey = r.Header.Get("Idempotency-Key"); len(q.turn.IdempotencyKey) > 256 {
		return agent.Invalid("Idempotency-Key", "is %d bytes, at most 256", len(q.turn.IdempotencyKey))
	}
	switch action := r.Header.Get(headerDisconnect); action {
	case "", "continue":
	case "cancel":
		q.cancelOnDisconnect = true
	default:
		return agent.Invalid(headerDisconnect, "want cancel or continue, got %.60q", action)
	}
	return q.setSession(headerSession, r.Header.Get(headerSession))
}

// dropKnownMessages drops the messages that the session already has: those up to the last assistant or tool message.
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

// object is a JSON object within a request.
type object struct {
	path    string
	members map[string]json.RawMessage // nil if the object is absent
	err     *error                     // the first error of the request
}

// fail records an error, unless one was recorded before.
func (o object) fail(err error) {
	if *o.err == nil {
		*o.err = err
	}
}

// refuse records that a member is invalid.
func (o object) refuse(name, format string, args ...any) {
	o.fail(agent.Invalid(o.memberPath(name), format, args...))
}

// within parses another object of the same request.
func (o object) within(path string, raw json.RawMessage) object {
	inner := object{path: path, err: o.err}
	o.fail(prefixField(path, strictjson.Decode(raw, &inner.members)))
	if inner.members == nil {
		o.fail(agent.Invalid(path, "want an object, got null"))
	}
	return inner
}

// memberPath returns the path of a member.
func (o object) memberPath(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// isAbsent reports whether a member is missing or null.
func (o object) isAbsent(name string) bool {
	raw, ok := o.members[name]
	return !ok || string(raw) == "null"
}

// object parses a member that is an object. If it is absent, the returned object has no members.
func (o object) object(name string) object {
	if o.isAbsent(name) {
		return object{path: o.memberPath(name), err: o.err}
	}
	return o.within(o.memberPath(name), o.members[name])
}

// member returns the value of a member, or the zero value if it is absent. A value of another type is an error.
func member[T any](o object, name string) (v T) {
	if !o.isAbsent(name) {
		o.fail(prefixField(o.memberPath(name), strictjson.Decode(o.members[name], &v)))
	}
	return v
}

// prefixField returns err with a path before its field.
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
	const maxFieldBytes = 256 // the client chooses the names of members
	c.Field = clip.Bytes(c.Field, maxFieldBytes)
	return &c
}
