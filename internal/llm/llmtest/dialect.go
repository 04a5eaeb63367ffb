package llmtest

import (
	"encoding/json"
	"net/http"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
)

// ModelName is the model of every scripted reply.
const ModelName = "scripted-1"

// Reply is a scripted reply of a provider.
type Reply struct {
	Events []Event
	Usage  agent.Usage
	Finish agent.FinishReason
}

// Event is one fragment of a reply; exactly one field is set. Signature belongs to the reasoning before it, Citation to the text before it. Only some
// dialects have a form for the fields from Redacted on.
type Event struct {
	Reasoning    string
	Signature    string
	Text         string
	Call         *Fragment
	Citation     *agent.Annotation
	Redacted     string        // encrypted reasoning
	ServerCall   *Fragment     // of a tool that the provider runs itself
	ServerResult *ServerResult // of such a tool
	Image        string        // PNG in base64
	Audio        string        // in base64
	Unknown      json.RawMessage
}

// ServerResult is the result of a tool that the provider ran.
type ServerResult struct {
	CallID  string
	Kind    string          // the type of its block
	Content json.RawMessage // in the provider's form
}

// Fragment is a piece of a tool call. The first piece of an index has ID and Name.
type Fragment struct {
	Index          int
	ID, Name, Args string
}

// Dialect is a provider's wire format.
type Dialect interface {
	BaseURL(server string) string
	Path() string                                    // of a request; * stands for the model
	ContentType() string                             // of a reply
	Frames(r Reply) []string                         // a whole reply in the pieces that cross the wire
	Refusal(status int, kind, message string) string // the body of a failed response

	traits() traits
}

// traits are the differences between dialects that the suite depends on.
type traits struct {
	APIKey         func(h http.Header) string        // returns the key of a request; nil: the dialect has none
	StreamError    func(kind, message string) string // returns the frame of a failure within a stream
	Malformed      string                            // a frame that does not parse
	KeepAlive      string                            // a frame without content
	Query          string                            // jq that makes a parsedRequest of a request body
	SignsReasoning bool                              // reasoning has a signature and is sent back
	ReportedUsage  func(u agent.Usage) agent.Usage   // returns the counts that the dialect can report; nil: all
	CanSend        func(e Event) bool                // reports whether the dialect has a form for an event
}

// parsedRequest holds the parts of a request body that the suite checks.
type parsedRequest struct {
	Temperature *float64 `json:"temperature"`
	ToolChoice  string   `json:"tool_choice"` // auto, none, required, or a tool's name
	Tools       []string `json:"tools"`       // names
	Results     []string `json:"results"`     // ids of the calls that have results, in order
	Signature   string   `json:"signature"`   // of reasoning
	HasSchema   bool     `json:"has_schema"`  // for the output
}

// parseRequest returns the parts of a request body that the suite checks.
func parseRequest(d Dialect, body []byte) (parsedRequest, error) {
	query, err := gojq.Parse(d.traits().Query)
	if err != nil {
		return parsedRequest{}, err
	}
	var input any
	if err := json.Unmarshal(body, &input); err != nil {
		return parsedRequest{}, err
	}
	found, _ := query.Run(input).Next()
	if err, failed := found.(error); failed {
		return parsedRequest{}, err
	}
	var parsed parsedRequest
	return parsed, json.Unmarshal([]byte(marshal(found)), &parsed)
}

// wholeCalls joins the fragments of each call, for dialects that send calls whole.
func wholeCalls(events []Event) []*Fragment {
	var calls []*Fragment
	byIndex := map[int]*Fragment{}
	for _, e := range events {
		switch {
		case e.Call == nil:
		case byIndex[e.Call.Index] != nil:
			byIndex[e.Call.Index].Args += e.Call.Args
		default:
			call := *e.Call
			byIndex[call.Index] = &call
			calls = append(calls, &call)
		}
	}
	return calls
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
