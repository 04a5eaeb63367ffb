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
// from Redacted on are in some dialects only ([Traits]).
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

// Sent is what a request body says, read in its dialect.
type Sent struct {
	Model       string
	Last        string   // text of the last user message
	Outputs     []string // what the results say, in order
	Temperature *float64
	ToolChoice  string   // auto, none, required, or a tool's name
	Tools       []string // their names
	Parts       int      // content parts of the first user message
	Results     []string // ids of the calls that have results, in order
	Signature   string   // of the first thinking block
	Schema      bool     // an output schema
}

// Dialect is a provider's wire format.
type Dialect interface {
	BaseURL(server string) string
	Path() string // of a request; * stands for the model
	ContentType() string
	Frames(r Reply) []string                         // a whole reply, piece by piece as it crosses the wire
	Refusal(status int, kind, message string) string // the body of a failure response
	Sent(body []byte) (Sent, error)                  // what a request says
	Traits() Traits
}

// Traits are what the suite has to know of a dialect.
type Traits struct {
	Key            func(h http.Header) string        // returns the credential of a request; nil: the dialect has none
	Fault          func(kind, message string) string // returns the frame of a failure within a stream
	NamesFaultKind bool                              // Fault says its kind
	Malformed      string                            // a frame that does not parse
	Idle           string                            // a frame without content
	SignsReasoning bool                              // reasoning is signed and goes back
	Reported       func(u agent.Usage) agent.Usage   // returns what of a usage the dialect can say; nil: all of it
	CanSend        func(e Event) bool                // reports whether the protocol has a form for a fragment
}

// object is a JSON object of a frame.
type object = map[string]any

// textOf joins the texts of a message's content, which is a string or a list of parts.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "unmarshalable: " + err.Error()
	}
	return string(b)
}

// ModelName is the model of every scripted reply.
const ModelName = "scripted-1"
