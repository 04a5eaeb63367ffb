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

// readYAML reads the documents of a YAML stream. It returns the fault that stopped it, nil if it read the whole stream.
func (r *reader) readYAML(data []byte) *locatedFault {
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
		if !r.begin() {
			return tooMany()
		}
		hasOnlyComments := root.Kind == yaml.ScalarNode && root.Value == "" && root.Style == 0 && root.Anchor == ""
		switch {
		case hasOnlyComments:
			continue
		case root.Kind != yaml.SequenceNode:
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

// yamlSyntax returns the fault for a syntax error. It leaves out the text that the error quotes, because that may be a secret.
func yamlSyntax(err error, data []byte) *locatedFault {
	message, pos := err.Error(), position{}
	if m := yamlError.FindStringSubmatch(message); m != nil {
		message = m[2]
		pos.line, _ = strconv.Atoi(m[1])
	}
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		// The error has the name of the anchor and no line.
		alias := "*" + strings.TrimSuffix(strings.TrimPrefix(message, "unknown anchor '"), "' referenced")
		if bytes.Count(data, []byte(alias)) == 1 {
			pos = newPositioner(data).positionOf(bytes.Index(data, []byte(alias)))
		}
		message = noAnchors
	case strings.Contains(message, "expected alphabetic or numeric character"):
		message += "; a value that begins with * or & needs quotes"
	}
	return &locatedFault{pos: pos, message: "malformed YAML: " + message}
}

// yamlNode converts a YAML node. Values that JSON cannot express are faults.
func (r *reader) yamlNode(y *yaml.Node, path *valuePath, depth int) *node {
	pos := position{y.Line, y.Column}
	if refused, ok := r.enter(pos, path, y.Kind != yaml.ScalarNode, depth); !ok {
		return refused
	}
	switch {
	case y.Kind == yaml.AliasNode, y.Anchor != "":
		return r.refuse(pos, path, noAnchors)
	case !hasCoreTag(y):
		return r.refuse(pos, path, noTags)
	}
	switch y.Kind {
	case yaml.MappingNode:
		return r.yamlMapping(y, path, depth)
	case yaml.SequenceNode:
		n := &node{form: formArray, pos: pos, keyPos: pos, items: make([]*node, len(y.Content))}
		for i, item := range y.Content {
			n.items[i] = r.yamlNode(item, &valuePath{parent: path, index: i, isItem: true}, depth+1)
		}
		return n
	case yaml.ScalarNode:
		n, problem := yamlScalar(y, pos)
		if problem != "" {
			return r.refuse(pos, path, problem)
		}
		n.keyPos = pos
		return n
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return r.refuse(pos, path, "is no value")
}

func (r *reader) yamlMapping(y *yaml.Node, path *valuePath, depth int) *node {
	pos := position{y.Line, y.Column}
	n := &node{form: formObject, pos: pos, keyPos: pos}
	names := make(map[string]bool, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		key := position{k.Line, k.Column}
		name, problem := yamlName(k)
		if problem != "" {
			r.addFault(key, path.String(), problem)
			continue
		}
		memberPath := &valuePath{parent: path, name: name}
		r.addMember(n, names, name, key, memberPath, r.yamlNode(y.Content[i+1], memberPath, depth+1))
	}
	return n
}

// yamlName returns the name of a member, or why it is not allowed.
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
	n, problem := yamlScalar(k, position{})
	switch {
	case problem != "":
		return "", problem
	case n.form != formText:
		return "", fmt.Sprintf("want a string as name, got %s: put it in quotes", n.form)
	}
	return n.text, nameProblem(n.text)
}

// hasCoreTag reports whether a node has no explicit tag or the tag of a JSON type.
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
		_, ok := formOfTag(y.Tag)
		return ok
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return false
}

// formOfTag returns the form of the values with a tag, and false for a tag of no JSON type.
func formOfTag(tag string) (form, bool) {
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

// yamlScalar converts a scalar. Quoted and block scalars are strings; others follow their tag or the core schema.
func yamlScalar(y *yaml.Node, pos position) (n *node, problem string) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	isQuoted, isTagged := y.Style&quoted != 0, y.Style&yaml.TaggedStyle != 0
	want, _ := formOfTag(y.Tag)
	if (isQuoted && !isTagged) || (isTagged && want == formText) {
		return textNode(y.Value, pos), scalarProblem(y.Value)
	}
	n, problem = plainScalar(y.Value, pos)
	if problem == "" && isTagged && (n.form != want || (y.Tag == "!!int" && !n.isInteger)) {
		problem = "is not what its tag says"
	}
	return n, problem
}
