package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

const (
	toolName       = "execute_pipeline"
	defaultSession = "offline"
)

// step is one step of execute_pipeline, its fields in the order that reads best.
type step struct {
	Step      string            `json:"step"`
	URL       string            `json:"url,omitempty"`
	Method    string            `json:"method,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	Condition *clause           `json:"condition,omitempty"`
	Field     string            `json:"field,omitempty"`
	Order     string            `json:"order,omitempty"`
	K         int               `json:"k,omitempty"`
	Fields    []string          `json:"fields,omitempty"`
}

// pipelineArgs are the arguments of execute_pipeline. The steps of an earlier call are carried as they were.
type pipelineArgs struct {
	SessionID string            `json:"session_id"`
	Pipeline  []json.RawMessage `json:"pipeline"`
	InputRef  string            `json:"input_ref,omitempty"`
}

// earlier is what the conversation holds already.
type earlier struct {
	session string
	args    *pipelineArgs // of the last execute_pipeline call
	ref     string        // where its result is stored, when it is
}

// plan turns an intent into the arguments of execute_pipeline. Rows that have a reference are not fetched again; without one, the
// earlier pipeline runs again with the new steps after it.
func plan(in *intent, before earlier, flightsURL string) (json.RawMessage, bool) {
	args := pipelineArgs{SessionID: before.session, Pipeline: []json.RawMessage{}}
	if args.SessionID == "" {
		args.SessionID = defaultSession
	}
	switch {
	case in.url != "":
		args.Pipeline = appendStep(args.Pipeline, step{Step: "http_request", URL: in.url, Method: "GET"})
	case in.origin != "" && flightsURL != "":
		args.Pipeline = appendStep(args.Pipeline, step{
			Step: "http_request", URL: flightsURL, Method: "GET", Params: map[string]string{"origin": in.origin, "dest": in.dest},
		})
	case in.origin != "":
		return nil, false
	case before.ref != "":
		args.InputRef = before.ref
	case before.args != nil:
		args.Pipeline = append(args.Pipeline, before.args.Pipeline...)
		args.InputRef = before.args.InputRef
	default:
		return nil, false
	}
	for _, s := range refinements(in) {
		args.Pipeline = appendStep(args.Pipeline, s)
	}
	raw, err := encode(args)
	return raw, err == nil
}

// encode is json.Marshal without the HTML escapes: arguments are shown to people.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// refinements are the steps after the source, in the order that means what people mean: the three cheapest nonstop flights are the
// three cheapest of the nonstop ones.
func refinements(in *intent) []step {
	var steps []step
	if len(in.tests) > 0 {
		condition := join(in.tests)
		steps = append(steps, step{Step: "table_filter", Condition: &condition})
	}
	if in.sort != "" {
		s := step{Step: "table_sort", Field: in.sort, Order: "asc"}
		if in.desc {
			s.Order = "desc"
		}
		steps = append(steps, s)
	}
	if in.top > 0 {
		steps = append(steps, step{Step: "top_k", K: in.top})
	}
	if len(in.fields) > 0 {
		steps = append(steps, step{Step: "table_select", Fields: in.fields})
	}
	return steps
}

func appendStep(list []json.RawMessage, s step) []json.RawMessage {
	raw, err := encode(s)
	if err != nil { // cannot be: the lexer makes nothing but valid JSON values
		return list
	}
	return append(list, raw)
}

var (
	sessionLine = regexp.MustCompile(`(?im)^\s*session(?:[ _]id)?:\s*(\S{1,128})\s*$`)
	storedRef   = regexp.MustCompile(`cas://[A-Za-z0-9]+:[0-9A-Fa-f]+`)
)

// recall reads the conversation before the last user message.
func recall(messages []message) earlier {
	var e earlier
	last := lastUser(messages)
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == "system" || m.Role == "developer":
			if found := sessionLine.FindStringSubmatch(m.text); found != nil {
				e.session = found[1]
			}
		case i >= last:
		case m.Role == "assistant":
			for _, c := range m.ToolCalls {
				var args pipelineArgs
				if c.Function.Name == toolName && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil {
					e.args, e.ref = &args, ""
				}
			}
		case m.Role == "tool":
			if ref := storedRef.FindString(m.text); ref != "" {
				e.ref = ref
			}
		}
	}
	return e
}

// lastUser is the position of the last user message, -1 without one.
func lastUser(messages []message) int {
	for i, message := range slices.Backward(messages) {
		if message.Role == "user" {
			return i
		}
	}
	return -1
}
