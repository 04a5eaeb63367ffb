package app

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The decoder walks the syntax tree itself instead of letting the library fill the struct: the library stops at the first fault,
// and its messages quote the lines around it, secrets included.

// yaml reads a document into the Config; name is for messages.
func (l *loader) yaml(name string, data []byte) {
	if !utf8.Valid(data) {
		l.faults.add(name, "", "malformed YAML: not UTF-8")
		return
	}
	file, err := parser.ParseBytes(data, 0)
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
		l.section(name, doc.Body, reflect.ValueOf(l.cfg).Elem(), "")
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

// section reads a mapping into a struct. An empty one, with every line commented out, says nothing.
func (l *loader) section(file string, n ast.Node, into reflect.Value, path string) {
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
		l.node(file, e.Value, target, child)
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

func (l *loader) node(file string, n ast.Node, into reflect.Value, path string) {
	switch p := into.Addr().Interface().(type) {
	case *[]Model:
		structs(l, file, n, p, path, func(m *Model) { m.LLM = defaultLLM() })
	case *[]MCPServer:
		structs(l, file, n, p, path, func(*MCPServer) {})
	case *[]Issuer:
		structs(l, file, n, p, path, func(*Issuer) {})
	case *[]ClientCertificate:
		structs(l, file, n, p, path, func(*ClientCertificate) {})
	case *[]TenantRetention:
		structs(l, file, n, p, path, func(*TenantRetention) {})
	case *[]TenantLimits:
		structs(l, file, n, p, path, func(*TenantLimits) {})
	case *[]string:
		l.list(file, n, p, path)
	default:
		if into.Kind() == reflect.Struct {
			l.section(file, n, into, path)
			return
		}
		l.scalar(file, n, into, path)
	}
}

// structs reads a list of sections; begin gives one what holds when it says nothing.
func structs[T any](l *loader, file string, n ast.Node, into *[]T, path string, begin func(*T)) {
	items, ok := l.items(file, n, path)
	if !ok {
		return
	}
	*into = sized[T](len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		begin(&(*into)[i])
		l.cfg.origins[at] = place(file, item)
		l.section(file, item, reflect.ValueOf(&(*into)[i]).Elem(), at)
	}
}

func (l *loader) list(file string, n ast.Node, into *[]string, path string) {
	items, ok := l.items(file, n, path)
	if !ok {
		return
	}
	*into = sized[string](len(items))
	for i, item := range items {
		l.scalar(file, item, reflect.ValueOf(&(*into)[i]).Elem(), fmt.Sprintf("%s[%d]", path, i))
	}
	l.cfg.origins[path] = place(file, n)
}

// sized is nil for an empty list: it overrides, and is the same as none.
func sized[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

func (l *loader) items(file string, n ast.Node, path string) ([]ast.Node, bool) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		l.faults.add(place(file, n), path, "want a list, got %s", kind(n))
		return nil, false
	}
	return seq.Values, true
}

// scalar reads one value. A number must be a number and a text a text, so that a forgotten quote or unit does not pass unseen; only a
// ${NAME}, which YAML takes for a text, may become anything.
func (l *loader) scalar(file string, n ast.Node, into reflect.Value, path string) {
	origin, typ := place(file, n), typeName(into)
	wrong := func(want string) { l.faults.add(origin, path, "want %s, got %s", want, kind(n)) }
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		raw := scalarText(n)
		expanded, err := l.expand(raw)
		if err != nil {
			l.faults.add(origin, path, "%s", err)
			return
		}
		if expanded == raw && (typ == "integer" || typ == "number" || typ == "bool") {
			wrong(wanted[typ])
			return
		}
		l.set(path, into, expanded, origin)
	case *ast.IntegerNode:
		none := typ == "duration" && fmt.Sprint(n.Value) == "0" // needs no unit
		if typ != "integer" && typ != "number" && typ != "size" && !none {
			wrong(wanted[typ])
			return
		}
		l.set(path, into, fmt.Sprint(n.Value), origin)
	case *ast.FloatNode:
		if typ != "number" {
			wrong(wanted[typ])
			return
		}
		l.set(path, into, fmt.Sprint(n.Value), origin)
	case *ast.BoolNode:
		if typ != "bool" {
			wrong(wanted[typ])
			return
		}
		l.set(path, into, fmt.Sprint(n.Value), origin)
	default:
		wrong(wanted[typ])
	}
}

//nolint:gochecknoglobals // a constant in all but syntax
var wanted = map[string]string{
	"string": "a text", "secret": "a text", "bool": "true or false", "integer": "a whole number", "number": "a number",
	"size": "a size in bytes such as 1048576 or 10MiB", "duration": "a duration such as 30s or 1h30m",
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

// kind names a node in the words of a person who writes YAML.
func kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
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

// expand replaces references to variables. What a variable holds is not expanded again.
func (l *loader) expand(s string) (string, error) {
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
