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

// leadingKeys come first in a document, in this order; the others follow by name.
//
//nolint:gochecknoglobals // a constant in all but syntax
var leadingKeys = []string{"kind", "tenant", "name", "node_id", "version", "node_version", "type", "description", "labels"}

// toYAML writes a catalog document as YAML: the same document is always the same text, and reading it gives the same document.
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
	if err := errors.Join(e.Encode(node(value, leadingKeys)), e.Close()); err != nil {
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

// node is the YAML of a JSON value. The keys in first come first.
func node(value any, first []string) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range sortedKeys(v, first) {
			n.Content = append(n.Content, scalar(key), node(v[key], nil))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, node(item, nil))
		}
		return n
	case string:
		return scalar(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
}

func sortedKeys(v map[string]any, first []string) []string {
	rank := func(key string) int {
		if i := slices.Index(first, key); i >= 0 {
			return i
		}
		return len(first)
	}
	return slices.SortedFunc(maps.Keys(v), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
}

// scalar is a string. The library quotes what it would itself take for something else, and chooses blocks where they lose nothing.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off": // truth values in YAML 1.1
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
