package app

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Why this is our own code: a fault has to name the setting's path and the line, all faults are listed at once, and no message may quote
// a secret. goccy/go-yaml, when it fills a struct, stops at the first fault and quotes the lines around it. koanf, viper and the like
// merge maps without lines and without types, so that the checks, the origins and the documentation of settings would still be needed on
// top of them. Here the library parses, and this file walks its syntax tree.

// byteOrderMark may stand at the beginning of a document; some editors write it.
const byteOrderMark = "\ufeff"

// readYAML reads a document into the Config; name is for messages.
func (l *loader) readYAML(name string, data []byte) {
	if !utf8.Valid(data) {
		l.faults.add(name, "", "malformed YAML: not UTF-8")
		return
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte(byteOrderMark)), 0)
	if err != nil {
		source, message := name, "malformed YAML"
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			message += ": " + firstLine(syntax.GetMessage())
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				source = fmt.Sprintf("%s:%d", name, t.Position.Line)
			}
		}
		l.faults.add(source, "", "%s", message)
		return
	}
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if documents++; documents > 1 {
			l.faults.add(name, "", "want one YAML document, got several")
			return
		}
		l.readSection(name, doc.Body, reflect.ValueOf(l.cfg).Elem(), "")
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func place(file string, n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d", file, t.Position.Line)
	}
	return file
}

// readSection reads a mapping into a struct. An empty mapping, such as one whose lines are all commented out, changes nothing.
func (l *loader) readSection(file string, n ast.Node, into reflect.Value, path string) {
	var entries []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	case *ast.NullNode, *ast.CommentGroupNode:
		return
	default:
		l.faults.add(place(file, n), path, "want a mapping, got %s", kind(n))
		return
	}
	for _, e := range entries {
		key, ok := e.Key.(*ast.StringNode)
		if !ok {
			l.faults.add(place(file, e.Key), path, "want a name as key, got %s", kind(e.Key))
			continue
		}
		child := join(path, key.Value)
		target, ok := member(into, key.Value)
		if !ok {
			l.faults.add(place(file, e.Key), child, "unknown setting")
			continue
		}
		l.readNode(file, e.Value, target, child)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// member finds a struct's field by its YAML name.
func member(section reflect.Value, name string) (reflect.Value, bool) {
	for i := range section.NumField() {
		info := section.Type().Field(i)
		tag, inline := yamlName(info)
		if inline {
			if v, ok := member(section.Field(i), name); ok {
				return v, true
			}
		}
		if tag == name && name != "" && info.IsExported() {
			return section.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func (l *loader) readNode(file string, n ast.Node, into reflect.Value, path string) {
	switch into.Kind() {
	case reflect.Struct:
		l.readSection(file, n, into, path)
	case reflect.Slice:
		l.readList(file, n, into, path)
	default:
		l.readScalar(file, n, into, path)
	}
}

// readList reads a list of texts or of sections. A section begins with its defaults.
func (l *loader) readList(file string, n ast.Node, into reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		l.faults.add(place(file, n), path, "want a list, got %s", kind(n))
		return
	}
	into.SetZero() // an empty list overrides, and is the same as none
	if len(seq.Values) > 0 {
		into.Set(reflect.MakeSlice(into.Type(), len(seq.Values), len(seq.Values)))
	}
	for i, item := range seq.Values {
		entry, entryPath := into.Index(i), fmt.Sprintf("%s[%d]", path, i)
		if isListOfStructs(into.Type()) {
			setDefaults(entry)
			l.cfg.origins[entryPath] = place(file, item)
		} else {
			l.cfg.origins[path] = place(file, n)
		}
		l.readNode(file, item, entry, entryPath)
	}
}

// readScalar reads one value. A number must be a number and a text a text, so that a forgotten quote or unit does not pass unseen; only a
// ${NAME}, which YAML takes for a text, may become anything.
func (l *loader) readScalar(file string, n ast.Node, into reflect.Value, path string) {
	origin, want := place(file, n), valueTypes[into.Type()]
	var text string
	fits := false
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		expanded, err := l.expandVariables(scalarText(n))
		if err != nil {
			l.faults.add(origin, path, "%s", err)
			return
		}
		text, fits = expanded, expanded != scalarText(n) || !slices.Contains([]string{"integer", "number", "bool"}, want.name)
	case *ast.IntegerNode:
		text = fmt.Sprint(n.Value)
		noTime := want.name == "duration" && text == "0" // needs no unit
		fits = noTime || slices.Contains([]string{"integer", "number", "size"}, want.name)
	case *ast.FloatNode:
		text, fits = fmt.Sprint(n.Value), want.name == "number"
	case *ast.BoolNode:
		text, fits = fmt.Sprint(n.Value), want.name == "bool"
	}
	if !fits {
		l.faults.add(origin, path, "want %s, got %s", want.want, kind(n))
		return
	}
	l.setValue(path, into, text, origin)
}

func scalarText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	default:
		return ""
	}
}

// kind returns what a person who writes YAML calls a node.
func kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.InfinityNode, *ast.NanNode:
		return "one that is not finite"
	case *ast.BoolNode:
		return "true or false"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	default:
		return "a tag, an anchor or an alias, which are not supported"
	}
}

// reference is $${ (escaped), ${NAME} or ${NAME:-default}; a ${ that is neither is caught as the last alternative.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{`)

// expandVariables replaces references to variables. The value of a variable is not expanded again.
func (l *loader) expandVariables(s string) (string, error) {
	var faults []string
	out := reference.ReplaceAllStringFunc(s, func(match string) string {
		if match == "$${" {
			return "${"
		}
		m := reference.FindStringSubmatch(match)
		name, hasDefault, fallback := m[1], m[2] != "", m[3]
		value, set := l.env[name]
		switch {
		case name == "":
			faults = append(faults, "malformed ${…}: want ${NAME} or ${NAME:-default}; write $${ for a literal ${")
		case hasDefault && value == "":
			return fallback
		case !set:
			faults = append(faults, "variable "+name+" is not set and has no default")
		}
		return value
	})
	if faults != nil {
		return "", errors.New(strings.Join(faults, "; "))
	}
	return out, nil
}
