package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// leadingKeys are the keys that come first in a document, in this order. Other keys follow in alphabetical order.
//
//nolint:gochecknoglobals // a constant in all but syntax
var leadingKeys = []string{"kind", "tenant", "name", "node_id", "version", "node_version", "type", "description", "labels"}

// toYAML returns a catalog document as YAML. The same document always has the same text, which decodes to the same document.
func toYAML(body json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "", fmt.Errorf("decode document: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("decode document: there is text behind it")
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(yamlNode(value, leadingKeys)), e.Close()); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return b.String(), nil
}

// printYAML prints a document as YAML.
func (a *app) printYAML(body json.RawMessage) error {
	text, err := toYAML(body)
	if err != nil {
		return err
	}
	fmt.Fprint(a.out, text)
	return nil
}

// yamlNode returns a JSON value as YAML. The leading keys of an object come first.
func yamlNode(value any, leading []string) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range sortedKeys(v, leading) {
			n.Content = append(n.Content, stringNode(key), yamlNode(v[key], nil))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item, nil))
		}
		return n
	case string:
		return stringNode(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
}

// sortedKeys returns the keys of an object: the leading ones, then the others in alphabetical order.
func sortedKeys(v map[string]any, leading []string) []string {
	rank := func(key string) int {
		if i := slices.Index(leading, key); i >= 0 {
			return i
		}
		return len(leading)
	}
	return slices.SortedFunc(maps.Keys(v), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
}

// stringNode returns a string as YAML. The encoder chooses its quotes.
func stringNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off": // booleans in YAML 1.1, which the encoder does not quote
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
