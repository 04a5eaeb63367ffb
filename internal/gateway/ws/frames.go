package ws

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// request is a frame of a client. Its type determines which other members it may and must have.
type request struct {
	Type       string                `json:"type"`
	ID         string                `json:"id"` // chosen by the client, and repeated in the answers
	TurnID     agent.TurnID          `json:"turn_id"`
	AfterIndex *int64                `json:"after_index"`
	Request    *agent.TurnRequest    `json:"request"`
	Decision   *agent.Decision       `json:"decision"`
	Provided   *agent.ProvidedResult `json:"provided"`
	Reason     string                `json:"reason"`
	By         string                `json:"by"`
}

// The types of frames that clients send.
const (
	typeTurn     = "turn"
	typeFollow   = "follow"
	typeUnfollow = "unfollow"
	typeGet      = "get"
	typeMessage  = "message"
	typeDecide   = "decide"
	typeProvide  = "provide"
	typeCancel   = "cancel"
	typePing     = "ping"
)

// frameType is a type of frame with its members besides type and id.
type frameType struct {
	name     string
	required []string
	optional []string
}

// frameTypes lists the types of frames that clients send.
//
//nolint:gochecknoglobals // nothing changes it
var frameTypes = []frameType{
	{name: typeTurn, required: []string{"request"}, optional: []string{"after_index"}},
	{name: typeFollow, required: []string{"turn_id"}, optional: []string{"after_index"}},
	{name: typeUnfollow},
	{name: typeGet, required: []string{"turn_id"}},
	{name: typeMessage, required: []string{"turn_id", "request"}},
	{name: typeDecide, required: []string{"turn_id", "decision"}},
	{name: typeProvide, required: []string{"turn_id", "provided"}},
	{name: typeCancel, required: []string{"turn_id"}, optional: []string{"reason", "by"}},
	{name: typePing},
}

// Limits of names that a client chooses, in bytes.
const (
	maxIDBytes    = 128
	maxFieldBytes = 256 // of a field in an error
)

// decode decodes and checks a frame. The request that it returns with an error has at most the id, for the error frame.
func decode(data []byte) (*request, error) {
	var r request
	if err := strictjson.Decode(data, &r); err != nil {
		var withID struct {
			ID string `json:"id"`
		}
		if !utf8.Valid(data) || json.Unmarshal(data, &withID) != nil || len(withID.ID) > maxIDBytes {
			withID.ID = ""
		}
		return &request{ID: withID.ID}, shortenField(err)
	}
	if len(r.ID) > maxIDBytes {
		return &request{}, agent.Invalid("id", "is longer than %d bytes", maxIDBytes)
	}
	return &r, r.check()
}

// check checks that a frame has the members of its type. It does not check their values, except after_index.
func (r *request) check() error {
	i := slices.IndexFunc(frameTypes, func(t frameType) bool { return t.name == r.Type })
	switch {
	case r.Type == "":
		return agent.Invalid("type", "is missing: want one of %s", allTypes())
	case i < 0:
		return agent.Invalid("type", "want one of %s, got %.60q", allTypes(), r.Type)
	case r.ID == "" && r.Type != typePing && r.Type != typeUnfollow: // the follow of the URL has the id ""
		return agent.Invalid("id", "is empty: choose an id, which the answers will have")
	}
	t := &frameTypes[i]
	for _, m := range r.members() {
		if m.isSet && !slices.Contains(t.required, m.name) && !slices.Contains(t.optional, m.name) {
			return agent.Invalid(m.name, "a frame of type %s has no such member", t.name)
		}
	}
	for _, m := range r.members() {
		if !m.isSet && slices.Contains(t.required, m.name) {
			return agent.Invalid(m.name, "is missing: a frame of type %s needs it", t.name)
		}
	}
	if r.AfterIndex != nil && *r.AfterIndex < 0 {
		return agent.Invalid("after_index", "want a whole number of 0 or more, got %d", *r.AfterIndex)
	}
	return nil
}

// member is a member of a frame besides type and id.
type member struct {
	name  string
	isSet bool
}

func (r *request) members() []member {
	return []member{
		{"turn_id", r.TurnID != ""},
		{"after_index", r.AfterIndex != nil},
		{"request", r.Request != nil},
		{"decision", r.Decision != nil},
		{"provided", r.Provided != nil},
		{"reason", r.Reason != ""},
		{"by", r.By != ""},
	}
}

func allTypes() string {
	names := make([]string, len(frameTypes))
	for i := range frameTypes {
		names[i] = frameTypes[i].name
	}
	return strings.Join(names, ", ")
}

// shortenField returns err with the field that the other doors name: without the frame's member request, decision or provided before it. A field
// that is too long is cut.
func shortenField(err error) error {
	original, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	e := *original
	for _, prefix := range []string{"request.", "decision.", "provided."} {
		if field, ok := strings.CutPrefix(e.Field, prefix); ok {
			e.Field = field
			break
		}
	}
	if len(e.Field) > maxFieldBytes {
		return agent.Invalid(clip.Bytes(e.Field, maxFieldBytes), "unknown field")
	}
	return &e
}

// The types of frames that the server sends.
const (
	typeAccepted = "accepted"
	typeEvent    = "event"
	typeDone     = "done"
	typeOK       = "ok"
	typeState    = "state"
	typeError    = "error"
	typePong     = "pong"
)

// reply is a frame of the server.
type reply struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"` // of the client's frame; "" if it could not be read
	TurnID       agent.TurnID    `json:"turn_id,omitempty"`
	SessionID    agent.SessionID `json:"session_id,omitempty"`
	StreamID     string          `json:"stream_id,omitempty"`
	Joined       bool            `json:"joined,omitempty"`   // in accepted: whether the turn existed before
	Position     *int            `json:"position,omitempty"` // in accepted, for a message: how many turns of the session are before it
	Event        *agent.Event    `json:"event,omitempty"`
	Turn         any             `json:"turn,omitempty"`
	Error        *agent.Failure  `json:"error,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"` // in error: after which the same frame may be accepted
}
