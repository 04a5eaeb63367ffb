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

// request is a frame of a client. Which members it may have, and must have, its type says.
type request struct {
	Type       string                `json:"type"`
	ID         string                `json:"id"` // the client's own; what answers the frame bears it
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

// kind is a type of frame with its members besides type and id. What its sender must be allowed is not here: [gateway.Call] asks.
type kind struct {
	name  string
	needs []string
	takes []string
}

// kinds lists the types.
//
//nolint:gochecknoglobals // a constant in all but syntax
var kinds = [...]kind{
	{name: typeTurn, needs: []string{"request"}, takes: []string{"after_index"}},
	{name: typeFollow, needs: []string{"turn_id"}, takes: []string{"after_index"}},
	{name: typeUnfollow},
	{name: typeGet, needs: []string{"turn_id"}},
	{name: typeMessage, needs: []string{"turn_id", "request"}},
	{name: typeDecide, needs: []string{"turn_id", "decision"}},
	{name: typeProvide, needs: []string{"turn_id", "provided"}},
	{name: typeCancel, needs: []string{"turn_id"}, takes: []string{"reason", "by"}},
	{name: typePing},
}

func kindOf(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// Bounds of what a client may call things, in bytes.
const (
	maxID   = 128
	maxPath = 256 // of a field in an error
)

// decode reads a frame strictly. The request that comes with an error holds the id at best, so that its sender knows which frame was
// meant.
func decode(data []byte) (*request, error) {
	var r request
	if err := strictjson.Decode(data, &r); err != nil {
		var head struct {
			ID string `json:"id"`
		}
		if !utf8.Valid(data) || json.Unmarshal(data, &head) != nil || len(head.ID) > maxID {
			head.ID = ""
		}
		return &request{ID: head.ID}, ofRequest(err)
	}
	if len(r.ID) > maxID {
		return &request{}, agent.Invalid("id", "is longer than %d bytes", maxID)
	}
	return &r, r.check()
}

// check checks the shape of a frame; what its request says is for others to judge.
func (r *request) check() error {
	k := kindOf(r.Type)
	switch {
	case r.Type == "":
		return agent.Invalid("type", "is missing: want one of %s", allTypes())
	case k == nil:
		return agent.Invalid("type", "want one of %s, got %.60q", allTypes(), r.Type)
	case r.ID == "" && r.Type != typePing && r.Type != typeUnfollow: // one of the query has the id ""
		return agent.Invalid("id", "is empty: choose one, the answers bear it")
	}
	for _, m := range r.members() {
		if !m.given {
			continue
		}
		if !slices.Contains(k.needs, m.name) && !slices.Contains(k.takes, m.name) {
			return agent.Invalid(m.name, "a frame of type %s has no such member", k.name)
		}
	}
	for _, m := range r.members() {
		if !m.given && slices.Contains(k.needs, m.name) {
			return agent.Invalid(m.name, "is missing: a frame of type %s needs it", k.name)
		}
	}
	if r.AfterIndex != nil && *r.AfterIndex < 0 {
		return agent.Invalid("after_index", "want a whole number of 0 or more, got %d", *r.AfterIndex)
	}
	return nil
}

type member struct {
	name  string
	given bool
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
	all := make([]string, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].name
	}
	return strings.Join(all, ", ")
}

// ofRequest names a field of a request, decision or result as every other door does, without the member that carries it, and lets nobody
// choose how long its name is.
func ofRequest(err error) error {
	var known *agent.Error
	if !errors.As(err, &known) {
		return err
	}
	e := *known
	for _, carrier := range []string{"request", "decision", "provided"} {
		if inner, ok := strings.CutPrefix(e.Field, carrier+"."); ok {
			e.Field = inner
			break
		}
	}
	if len(e.Field) > maxPath {
		return agent.Invalid(clip.Bytes(e.Field, maxPath), "is no field of ours")
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
	ID           string          `json:"id"` // of the frame that it answers; empty when that could not be read
	TurnID       agent.TurnID    `json:"turn_id,omitempty"`
	SessionID    agent.SessionID `json:"session_id,omitempty"`
	StreamID     string          `json:"stream_id,omitempty"`
	Joined       bool            `json:"joined,omitempty"`   // accepted: the turn was there already
	Position     *int            `json:"position,omitempty"` // accepted, of a message: 0 runs at once, 1 is next in line
	Event        *agent.Event    `json:"event,omitempty"`
	Turn         any             `json:"turn,omitempty"`
	Error        *agent.Failure  `json:"error,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"` // error: when the same frame makes sense again
}
