package llmtest

import (
	"encoding/json"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// Reply is what a scripted provider says.
type Reply struct {
	Events []Event
	Usage  agent.Usage
	Finish agent.FinishReason
}

// Event is one fragment on the wire; one field is set. Signature goes with the reasoning before it, Citation with the text. The fields
// from Redacted on are in some dialects only.
type Event struct {
	Reasoning string
	Signature string
	Text      string
	Call      *Fragment
	Citation  *agent.Annotation
	Redacted  string          // encrypted reasoning
	Served    *Fragment       // a piece of a call that the provider runs itself
	Result    *Result         // of such a call
	Image     string          // PNG in base64
	Audio     string          // in base64
	Unknown   json.RawMessage // a block of a type that nobody knows
}

// Result is what a tool of the provider's came to.
type Result struct {
	ID      string          // of the call
	Kind    string          // the type of its block
	Content json.RawMessage // in the provider's form
}

// Fragment is a piece of a tool call: ID and Name come with the first piece of an index.
type Fragment struct {
	Index          int
	ID, Name, Args string
}

// sentRequest holds the parts of a request body that the suite checks.
type sentRequest struct {
	Temperature *float64
	ToolChoice  string   // auto, none, required, or a tool's name
	Tools       []string // their names
	Results     []string // ids of the calls that have results, in order
	Signature   string   // of a thinking block
	Schema      bool     // an output schema
}

// Dialect is a provider's wire format.
type Dialect interface {
	BaseURL(server string) string
	Path() string // of a request; * stands for the model
	ContentType() string
	Frames(r Reply) []string                         // a whole reply, piece by piece as it crosses the wire
	Refusal(status int, kind, message string) string // the body of a failure response

	read(body []byte) (sentRequest, error)
	traits() traits
}

// traits are the differences between dialects that the suite depends on.
type traits struct {
	Key            func(h http.Header) string        // returns the credential of a request; nil: the dialect has none
	Fault          func(kind, message string) string // returns the frame of a failure within a stream
	Malformed      string                            // a frame that does not parse
	Idle           string                            // a frame without content
	SignsReasoning bool                              // reasoning is signed and goes back
	Reported       func(u agent.Usage) agent.Usage   // returns what of a usage the dialect can say; nil: all of it
	CanSend        func(e Event) bool                // reports whether the protocol has a form for a fragment
}

// object is a JSON object of a frame.
type object = map[string]any

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "unmarshalable: " + err.Error()
	}
	return string(b)
}

// ModelName is the model of every scripted reply.
const ModelName = "scripted-1"
