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
	resumed    *resumption
	derivedKey string // the idempotency key, where the client gave none
}

// parse reads a body. Members that are not known are ignored, those that are known are checked: the error names the member.
func parse(body []byte) (request, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return request{}, agent.Invalid("", "the body is empty: want a JSON object")
	}
	o, err := objectOf("", body)
	if err != nil {
		return request{}, err
	}
	q := request{turn: agent.TurnRequest{History: agent.HistoryFresh}}
	for _, read := range []func(object) error{q.readModel, q.readOptions, q.readTools, q.readFormat, q.readMetadata, q.readMessages} {
		if err := read(o); err != nil {
			return request{}, err
		}
	}
	return q, nil
}

// readModel reads which agent is asked: "analyst", or "analyst:fast" for another profile of its models.
func (q *request) readModel(o object) (err error) {
	if q.model, err = member[string](o, "model"); err != nil {
		return err
	}
	if q.model == "" {
		return agent.Invalid("model", "is missing: name an agent, see GET /v1/models")
	}
	name, profile, _ := strings.Cut(q.model, ":")
	if !agent.ValidName(name) {
		return noModel(q.model)
	}
	q.turn.Agent, q.turn.Model = name, profile
	return nil
}

func noModel(model string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "model", "the model %.140q does not exist", model)
}

func (q *request) readOptions(o object) error {
	n, err := member[int](o, "n")
	if err != nil {
		return err
	}
	if !o.absent("n") && n != 1 {
		return agent.Invalid("n", "want 1: an agent gives one answer")
	}
	modalities, err := member[[]string](o, "modalities")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(modalities, func(m string) bool { return m != "text" }) {
		return agent.Invalid("modalities", "want text alone")
	}
	if q.stream, err = member[bool](o, "stream"); err != nil {
		return err
	}
	options, err := o.object("stream_options")
	if err != nil {
		return err
	}
	if q.usage, err = member[bool](options, "include_usage"); err != nil {
		return err
	}
	q.user, err = member[string](o, "user")
	return err
}

// readFormat reads which shape the answer must have.
func (q *request) readFormat(o object) error {
	format, err := o.object("response_format")
	if err != nil || format.members == nil {
		return err
	}
	kind, err := member[string](format, "type")
	if err != nil {
		return err
	}
	switch kind {
	case "text":
	case "json_object":
		q.structured, q.turn.OutputSchema = true, json.RawMessage(`{"type":"object"}`)
	case "json_schema":
		wrapped, err := format.object("json_schema")
		if err != nil {
			return err
		}
		if wrapped.absent("schema") {
			return agent.Invalid(format.at("json_schema.schema"), "is missing")
		}
		q.structured, q.turn.OutputSchema = true, wrapped.members["schema"]
	default:
		return agent.Invalid(format.at("type"), "want text, json_object or json_schema, got %.60q", kind)
	}
	return nil
}

// readMetadata reads what the turn is told of the request, and the session.
func (q *request) readMetadata(o object) error {
	metadata, err := o.object("metadata")
	if err != nil {
		return err
	}
	session, err := member[string](metadata, "session_id")
	if err != nil {
		return err
	}
	if err := q.setSession(metadata.at("session_id"), session); err != nil {
		return err
	}
	for name := range metadata.members {
		if name == "session_id" {
			continue
		}
		value, err := member[any](metadata, name)
		if err != nil {
			return err
		}
		if q.turn.Context.Metadata == nil {
			q.turn.Context.Metadata = map[string]any{}
		}
		q.turn.Context.Metadata[name] = value
	}
	return nil
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
	if err := q.setSession(headerSession, r.Header.Get(headerSession)); err != nil {
		return err
	}
	return nil
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
}

func objectOf(path string, raw json.RawMessage) (object, error) {
	o := object{path: path}
	if err := strictjson.Decode(raw, &o.members); err != nil {
		return o, prefixField(path, err)
	}
	if o.members == nil {
		return o, agent.Invalid(path, "want an object, got null")
	}
	return o, nil
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
func (o object) object(name string) (object, error) {
	if o.absent(name) {
		return object{path: o.at(name)}, nil
	}
	return objectOf(o.at(name), o.members[name])
}

// member reads a member; one that is absent, or null, is the zero value.
func member[T any](o object, name string) (T, error) {
	var v T
	if o.absent(name) {
		return v, nil
	}
	return v, prefixField(o.at(name), strictjson.Decode(o.members[name], &v))
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
