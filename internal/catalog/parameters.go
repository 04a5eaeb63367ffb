package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/valyala/fasttemplate"
)

// The parameters of an agent node that the runtime uses.
const (
	paramSystemMessage = "system_message"
	paramTemperature   = "temperature"
	paramMaxTokens     = "max_tokens"
	paramMaxIterations = "max_iterations"
	paramReturnSteps   = "return_intermediate_steps"
)

// parameters are the checked parameters of a node, including defaults.
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

// isText reports whether a parameter is a string or absent.
func (p parameters) isText(name string) bool {
	raw, ok := p.values[name]
	return !ok || (len(raw) > 0 && raw[0] == '"')
}

// decode decodes a parameter into v. It returns false if the parameter is absent, null or of another type.
func (p parameters) decode(name string, v any) bool {
	raw, ok := p.values[name]
	return ok && string(raw) != "null" && json.Unmarshal(raw, v) == nil
}

// maxPrompt bounds a system prompt after its parameters are filled in, in bytes.
const maxPrompt = 512 << 10

var errPrompt = fmt.Errorf("the node's prompt and the parameters make a system prompt of more than %d bytes", maxPrompt)

// boundedText is a text of at most maxPrompt bytes.
type boundedText struct{ strings.Builder }

func (b *boundedText) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxPrompt {
		return 0, errPrompt
	}
	return b.Builder.Write(p)
}

// fillPrompt returns a prompt with parameters in place of {{name}}: strings verbatim, other values as JSON. An empty prompt means the system
// message. There is no template language, because a prompt must not run code.
func (p parameters) fillPrompt(prompt string) (string, error) {
	if prompt == "" {
		var text string
		p.decode(paramSystemMessage, &text)
		if len(text) > maxPrompt {
			return "", errPrompt
		}
		return text, nil
	}
	t, err := fasttemplate.NewTemplate(prompt, "{{", "}}")
	if err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	var out boundedText
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

// boolean returns a boolean parameter, false if it is absent.
func (p parameters) boolean(name string) (value bool, err error) {
	raw, exists := p.values[name]
	if exists && string(raw) != "null" && json.Unmarshal(raw, &value) != nil {
		return false, errors.New("want true or false: the runtime takes it as such")
	}
	return value, nil
}

// numberParameter returns a number parameter within bounds; ok is false if it is absent.
func numberParameter[T int | float64](p parameters, name string, low, high T) (value T, ok bool, err error) {
	raw, exists := p.values[name]
	if !exists || string(raw) == "null" {
		return 0, false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil || value < low || value > high {
		return 0, false, fmt.Errorf("want a number from %v to %v: the runtime takes it as such", low, high)
	}
	return value, true, nil
}
