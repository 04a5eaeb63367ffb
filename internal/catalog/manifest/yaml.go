package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml reads the documents of a YAML stream. It returns the fault that stopped it, nil at the end.
func (r *reader) yaml(data []byte) *locatedFault {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := decodeYAML(d, &n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return yamlSyntax(err, data)
		case len(n.Content) != 1:
			continue
		}
		root := n.Content[0]
		list := root.Kind == yaml.SequenceNode
		if !r.begin() {
			return tooMany()
		}
		if root.Kind == yaml.ScalarNode && root.Value == "" && root.Style == 0 && root.Anchor == "" {
			continue // nothing but comments
		}
		if !list {
			r.end(r.yamlNode(root, nil, 0))
			continue
		}
		for _, item := range root.Content {
			if !r.begin() {
				return tooMany()
			}
			r.end(r.yamlNode(item, nil, 0))
		}
	}
}

// decodeYAML decodes the next document. It turns a panic of the library into an error.
func decodeYAML(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("yaml: cannot be read")
		}
	}()
	return d.Decode(n)
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)

const (
	noAnchors = "anchors and aliases are not supported"
	noTags    = "tags other than those of YAML's core schema are not supported"
)

// yamlSyntax returns a syntax error without the text that it quotes, which may be a secret.
func yamlSyntax(err error, data []byte) *locatedFault {
	message, at := err.Error(), place{}
	if m := yamlError.FindStringSubmatch(message); m != nil {
		message = m[2]
		at.line, _ = strconv.Atoi(m[1])
	}
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		// The error has the name of the anchor and no line.
		alias := "*" + strings.TrimSuffix(strings.TrimPrefix(message, "unknown anchor '"), "' referenced")
		if bytes.Count(data, []byte(alias)) == 1 {
			at = newPlacer(data).place(bytes.Index(data, []byte(alias)))
		}
		message = noAnchors
	case strings.Contains(message, "expected alphabetic or numeric character"):
		message += "; a value that begins with * or & needs quotes"
	}
	return &locatedFault{at: at, message: "malformed YAML: " + message}
}

// yamlNode turns a YAML node into a value. What JSON cannot express is a fault at its place.
func (r *reader) yamlNode(y *yaml.Node, t *trail, depth int) *node {
	at := place{y.Line, y.Column}
	if refused, ok := r.enter(at, t, y.Kind != yaml.ScalarNode, depth); !ok {
		return refused
	}
	switch {
	case y.Kind == yaml.AliasNode, y.Anchor != "":
		return r.refuse(at, t, noAnchors)
	case !hasCoreTag(y):
		return r.refuse(at, t, noTags)
	}
	switch y.Kind {
	case yaml.MappingNode:
		return r.yamlMapping(y, t, depth)
	case yaml.SequenceNode:
		n := &node{form: formArray, at: at, key: at, items: make([]*node, len(y.Content))}
		for i, item := range y.Content {
			n.items[i] = r.yamlNode(item, &trail{up: t, index: i, list: true}, depth+1)
		}
		return n
	case yaml.ScalarNode:
		n, problem := yamlScalar(y, at)
		if problem != "" {
			return r.refuse(at, t, problem)
		}
		n.key = at
		return n
	case yaml.DocumentNode, yaml.AliasNode:
		return r.refuse(at, t, "is no value")
	default:
		return r.refuse(at, t, "is no value")
	}
}

func (r *reader) yamlMapping(y *yaml.Node, t *trail, depth int) *node {
	at := place{y.Line, y.Column}
	n := &node{form: formObject, at: at, key: at}
	seen := make(map[string]struct{}, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		key := place{k.Line, k.Column}
		name, problem := yamlName(k)
		if problem != "" {
			r.fault(key, t.String(), problem)
			continue
		}
		way := &trail{up: t, name: name}
		r.add(n, seen, name, key, way, r.yamlNode(y.Content[i+1], way, depth+1))
	}
	return n
}

// yamlName returns the name of a member.
func yamlName(k *yaml.Node) (name, problem string) {
	switch {
	case k.Kind == yaml.AliasNode, k.Anchor != "":
		return "", noAnchors
	case k.Kind == yaml.ScalarNode && k.Tag == "!!merge":
		return "", "merge keys are not supported"
	case k.Kind != yaml.ScalarNode:
		return "", "want a string as name, got " + map[yaml.Kind]form{yaml.MappingNode: formObject, yaml.SequenceNode: formArray}[k.Kind].String()
	case !hasCoreTag(k):
		return "", noTags
	}
	n, problem := yamlScalar(k, place{})
	switch {
	case problem != "":
		return "", problem
	case n.form != formText:
		return "", fmt.Sprintf("want a string as name, got %s: put it in quotes", n.form)
	}
	return n.text, nameProblem(n.text)
}

// hasCoreTag reports whether a node has no explicit tag, or one of a JSON type.
func hasCoreTag(y *yaml.Node) bool {
	if y.Style&yaml.TaggedStyle == 0 {
		return true
	}
	switch y.Kind {
	case yaml.MappingNode:
		return y.Tag == "!!map"
	case yaml.SequenceNode:
		return y.Tag == "!!seq"
	case yaml.ScalarNode:
		_, ok := tagForms(y.Tag)
		return ok
	case yaml.DocumentNode, yaml.AliasNode:
		return false
	default:
		return false
	}
}

func tagForms(tag string) (form, bool) {
	switch tag {
	case "!!str":
		return formText, true
	case "!!int", "!!float":
		return formNumber, true
	case "!!bool":
		return formBool, true
	case "!!null":
		return formNull, true
	default:
		return 0, false
	}
}

// yamlScalar reads a scalar: a string if it is quoted or a block, otherwise by its tag or the core schema.
func yamlScalar(y *yaml.Node, at place) (n *node, problem string) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tagged := y.Style&yaml.TaggedStyle != 0
	want, _ := tagForms(y.Tag)
	if y.Style&quoted != 0 && !tagged || tagged && want == formText {
		return textNode(y.Value, at), scalarProblem(y.Value)
	}
	n, problem = plainScalar(y.Value, at)
	if problem == "" && tagged && (n.form != want || y.Tag == "!!int" && !n.whole) {
		problem = "is not what its tag says"
	}
	return n, problem
}
