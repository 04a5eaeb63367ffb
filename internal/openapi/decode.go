package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of a document. With the bounds on values, a decoded document takes at most a few hundred megabytes.
const (
	MaxBytes = 16 << 20

	maxJSONValues = 3_000_000
	maxYAMLValues = 1_500_000
	maxDepth      = 250
)

// decode reads JSON or YAML into maps, slices, strings, bools, nil and [json.Number].
func decode(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > MaxBytes {
		return nil, agent.Errorf(agent.CodeOverflow, "", "is %d bytes, at most %d", len(data), MaxBytes)
	}
	switch start := bytes.TrimLeft(data, " \t\r\n"); {
	case len(start) == 0:
		return nil, agent.Errorf(agent.CodeInvalid, "", "is empty")
	case start[0] == '{', start[0] == '[':
		return DecodeJSON(data)
	case start[0] == '<':
		return nil, agent.Errorf(agent.CodeInvalid, "", "is neither JSON nor YAML: it begins like a web page")
	default:
		return decodeYAML(data)
	}
}

// checkCount returns an error if a text may have more than maxValues values, which it estimates from the number of separators.
func checkCount(data []byte, separators string, maxValues int) error {
	n := 1
	for _, c := range []byte(separators) {
		n += bytes.Count(data, []byte{c})
	}
	if n > maxValues {
		return agent.Errorf(agent.CodeOverflow, "", "has more than %d values", maxValues)
	}
	return nil
}

// DecodeJSON decodes one JSON value with numbers as [json.Number]. Its errors are predicates, such as "is not well-formed JSON".
func DecodeJSON(data []byte) (any, error) {
	if err := checkCount(data, ",[{", maxJSONValues); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is not well-formed JSON: %s", clip.Bytes(err.Error(), 200))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is not well-formed JSON: there is something behind the first value")
	}
	if isDeeper(v, maxDepth) {
		return nil, agent.Errorf(agent.CodeOverflow, "", "is nested more than %d deep", maxDepth)
	}
	return v, nil
}

// isDeeper reports whether a value is nested deeper than a number of levels.
func isDeeper(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if isDeeper(member, levels-1) {
				return true
			}
		}
	case []any:
		for _, element := range v {
			if isDeeper(element, levels-1) {
				return true
			}
		}
	}
	return false
}

func decodeYAML(data []byte) (v any, err error) {
	if err := checkCount(data, ",[{\n", maxYAMLValues); err != nil {
		return nil, err
	}
	defer func() { // the parser may panic on invalid documents
		if p := recover(); p != nil {
			v, err = nil, agent.Errorf(agent.CodeInvalid, "", "is YAML that cannot be read")
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is not well-formed YAML: %s", clip.Bytes(err.Error(), 200))
	}
	r := yamlReader{anchors: map[*yaml.Node]yamlValue{}}
	s, err := r.value(&doc, maxDepth)
	return s.value, err
}

// yamlReader converts nodes to values. All aliases of an anchor share one value, but its size counts each time, so that a short document cannot
// expand into a large one.
type yamlReader struct{ anchors map[*yaml.Node]yamlValue }

type yamlValue struct {
	value     any
	size      int  // number of values including itself, with aliases expanded
	isReading bool // its anchor is being read
}

func (r *yamlReader) value(n *yaml.Node, levels int) (yamlValue, error) {
	if levels < 0 {
		return yamlValue{}, agent.Errorf(agent.CodeOverflow, "", "line %d is nested more than %d deep", n.Line, maxDepth)
	}
	if n.Anchor != "" {
		r.anchors[n] = yamlValue{isReading: true}
	}
	s, err := r.read(n, levels)
	if err == nil && s.size > maxYAMLValues {
		err = agent.Errorf(agent.CodeOverflow, "", "has more than %d values once its aliases are written out", maxYAMLValues)
	}
	if err == nil && n.Anchor != "" {
		r.anchors[n] = s
	}
	return s, err
}

func (r *yamlReader) read(n *yaml.Node, levels int) (yamlValue, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) != 1 {
			return yamlValue{}, agent.Errorf(agent.CodeInvalid, "", "is no single YAML document")
		}
		return r.value(n.Content[0], levels)
	case yaml.AliasNode:
		s, exists := r.anchors[n.Alias]
		if !exists || s.isReading {
			return yamlValue{}, agent.Errorf(agent.CodeInvalid, "", "line %d: the alias %q refers to what it is a part of", n.Line, clip.Bytes(n.Value, 60))
		}
		return s, nil
	case yaml.SequenceNode:
		all, size := make([]any, len(n.Content)), 1
		for i, element := range n.Content {
			s, err := r.value(element, levels-1)
			if err != nil {
				return yamlValue{}, err
			}
			all[i], size = s.value, size+s.size
		}
		return yamlValue{value: all, size: size}, nil
	case yaml.MappingNode:
		return r.mapping(n, levels)
	case yaml.ScalarNode:
		return yamlValue{value: scalar(n), size: 1}, nil
	default:
		return yamlValue{}, agent.Errorf(agent.CodeInvalid, "", "is empty")
	}
}

func (r *yamlReader) mapping(n *yaml.Node, levels int) (yamlValue, error) {
	all, size := make(map[string]any, len(n.Content)/2), 1
	merged := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return yamlValue{}, agent.Errorf(agent.CodeInvalid, "", "line %d: a key is no scalar", key.Line)
		}
		s, err := r.value(n.Content[i+1], levels-1)
		if err != nil {
			return yamlValue{}, err
		}
		size += s.size
		if key.ShortTag() == "!!merge" {
			mergeMissing(merged, s.value)
			continue
		}
		all[key.Value] = s.value
	}
	mergeMissing(all, merged)
	return yamlValue{value: all, size: size}, nil
}

// mergeMissing copies into dst the members of a mapping, or of a list of mappings, that dst lacks. This is the meaning of "<<".
func mergeMissing(dst map[string]any, src any) {
	switch src := src.(type) {
	case map[string]any:
		for name, v := range src {
			if _, exists := dst[name]; !exists {
				dst[name] = v
			}
		}
	case []any:
		for _, one := range src {
			if m, ok := one.(map[string]any); ok {
				mergeMissing(dst, m)
			}
		}
	}
}

// scalar returns the value of a scalar. A value that JSON cannot express, such as a date, is a string.
func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		var whole int64
		if err := n.Decode(&whole); err == nil {
			return json.Number(strconv.FormatInt(whole, 10))
		}
		return number(n)
	case "!!float":
		return number(n)
	default:
		return n.Value
	}
}

func number(n *yaml.Node) any {
	if json.Valid([]byte(n.Value)) {
		return json.Number(n.Value)
	}
	var f float64
	if err := n.Decode(&f); err != nil {
		return n.Value
	}
	text, err := json.Marshal(f)
	if err != nil { // infinite or NaN
		return n.Value
	}
	return json.Number(text)
}
