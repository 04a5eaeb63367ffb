package catalog

import (
	"encoding/json"
	"errors"
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
	paramReturnSteps   = "return_intermediate_steps"
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

// isText reports whether a parameter is a string, or not there.
func (p parameters) isText(name string) bool {
	raw, ok := p.values[name]
	return !ok || (len(raw) > 0 && raw[0] == '"')
}

// into decodes a parameter; false when it is not given or null.
func (p parameters) into(name string, v any) bool {
	raw, ok := p.values[name]
	return ok && string(raw) != "null" && json.Unmarshal(raw, v) == nil
}

// maxPrompt bounds a system prompt, in bytes: what a node's prompt and an agent's parameters make together.
const maxPrompt = 512 << 10

var errPrompt = fmt.Errorf("the node's prompt and the parameters make a system prompt of more than %d bytes", maxPrompt)

// bounded is a text that refuses to grow beyond maxPrompt.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxPrompt {
		return 0, errPrompt
	}
	return b.Builder.Write(p)
}

// fill writes a prompt: {{name}} stands for a parameter, a text as it is, anything else as JSON. Nothing is evaluated: a prompt is
// data of the catalog, and a template language would be code.
func (p parameters) fill(prompt string) (string, error) {
	if prompt == "" {
		var text string
		p.into(paramSystemMessage, &text)
		if len(text) > maxPrompt {
			return "", errPrompt
		}
		return text, nil
	}
	t, err := fasttemplate.NewTemplate(prompt, "{{", "}}")
	if err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	var out bounded
	_, err = t.ExecuteFunc(&out, func(w io.Writer, name string) (int, error) {
		raw, ok := p.values[name]
		if !ok {
			return 0, fmt.Errorf("the node's prompt names %q, which is not given and has no default", name)
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = []byte(text)
		}
		return w.Write(raw)
	})
	return out.String(), err
}

// flag reads a parameter that is true or false; false when it is not given.
func (p parameters) flag(name string) (value bool, err error) {
	raw, given := p.values[name]
	if given && string(raw) != "null" && json.Unmarshal(raw, &value) != nil {
		return false, errors.New("want true or false: the runtime takes it as such")
	}
	return value, nil
}

// special reads a parameter that means something to the runtime. ok is false when it is not given; a value that the runtime cannot
// take is an error.
func special[T int | float64](p parameters, name string, low, high T) (value T, ok bool, err error) {
	raw, given := p.values[name]
	if !given || string(raw) == "null" {
		return 0, false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil || value < low || value > high {
		return 0, false, fmt.Errorf("want a number from %v to %v: the runtime takes it as such", low, high)
	}
	return value, true, nil
}
