package catalog

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/valyala/fasttemplate"
)

// The parameters of an agent's node that mean something to the runtime, where the node has them.
const (
	paramSystemMessage = "system_message"
	paramTemperature   = "temperature"
	paramMaxTokens     = "max_tokens"
	paramMaxIterations = "max_iterations"
)

// parameters are a node's, checked and with defaults filled in.
type parameters struct {
	raw    json.RawMessage // canonical
	values map[string]json.RawMessage
}

func newParameters(raw json.RawMessage) (parameters, error) {
	p := parameters{raw: raw}
	if len(raw) == 0 {
		return p, nil
	}
	err := json.Unmarshal(raw, &p.values)
	return p, err
}

// into decodes a parameter; false when it is not given or null.
func (p parameters) into(name string, v any) bool {
	raw, ok := p.values[name]
	return ok && string(raw) != "null" && json.Unmarshal(raw, v) == nil
}

// fill writes a prompt: {{name}} stands for a parameter, a text as it is, anything else as JSON. Nothing is evaluated: a prompt is
// data of the catalog, and a template language would be code.
func (p parameters) fill(prompt string) (string, error) {
	if prompt == "" {
		var text string
		p.into(paramSystemMessage, &text)
		return text, nil
	}
	t, err := fasttemplate.NewTemplate(prompt, "{{", "}}")
	if err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	var missing error
	text := t.ExecuteFuncString(func(w io.Writer, tag string) (int, error) {
		name := strings.TrimSpace(tag)
		raw, ok := p.values[name]
		if !ok && missing == nil {
			missing = fmt.Errorf("the node's prompt names %q, which is not given and has no default", name)
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return io.WriteString(w, text)
		}
		return w.Write(raw)
	})
	return text, missing
}
