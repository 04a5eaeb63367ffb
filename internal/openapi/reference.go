package openapi

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of the references of an operation.
const (
	maxHops      = 200 // in a chain of references
	maxFiles     = 32
	maxFileBytes = MaxBytes // of all other files
)

// Fetch reads another file of a document, at most maxBytes. The URL has the origin of the document and no fragment.
type Fetch func(ctx context.Context, u *url.URL, maxBytes int) ([]byte, error)

// node is a value in a file of a document. Its file and JSON Pointer identify it.
type node struct {
	file    string // the URL of the file; "" for the document itself
	pointer jsontext.Pointer
	value   any
}

func (n node) object() map[string]any {
	m, _ := n.value.(map[string]any)
	return m
}

// child returns a member of an object, and false if there is none.
func (n node) child(name string) (child node, ok bool) {
	value, ok := n.object()[name]
	return node{file: n.file, pointer: n.pointer.AppendToken(name), value: value}, ok
}

// elements returns the elements of a member that is a list, nil if it is not.
func (n node) elements(name string) []node {
	list, _ := n.child(name)
	values, _ := list.value.([]any)
	all := make([]node, len(values))
	for i, value := range values {
		all[i] = node{file: list.file, pointer: list.pointer.AppendToken(strconv.Itoa(i)), value: value}
	}
	return all
}

func (n node) id() string { return n.file + "#" + string(n.pointer) }

// resolver resolves the references of an operation.
type resolver struct {
	doc   *Document
	fetch Fetch
	files map[string]any
	bytes int
}

func newResolver(doc *Document, fetch Fetch) *resolver {
	return &resolver{doc: doc, fetch: fetch, files: map[string]any{"": doc.root}}
}

// resolve returns the node that a chain of references leads to. It returns a node that is not a reference unchanged.
func (r *resolver) resolve(ctx context.Context, n node) (node, error) {
	visited := map[string]bool{}
	for {
		ref, ok := n.object()["$ref"].(string)
		if !ok {
			return n, nil
		}
		if visited[n.id()] || len(visited) >= maxHops {
			return n, agent.Invalid("", "the reference %q leads to itself, or through more than %d others", clip.Bytes(ref, 200), maxHops)
		}
		visited[n.id()] = true
		next, err := r.target(ctx, n.file, ref)
		if err != nil {
			return n, err
		}
		n = next
	}
}

// target returns the node that a reference in a file points to. It may be another reference.
func (r *resolver) target(ctx context.Context, file, ref string) (node, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return node{}, agent.Invalid("", "the reference %q is no URL", clip.Bytes(ref, 200))
	}
	pointer := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if u.String() != "" {
		if file, err = r.openFile(ctx, file, u, ref); err != nil {
			return node{}, err
		}
	}
	root := node{file: file, value: r.files[file]}
	if pointer == "" {
		return root, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return node{}, agent.Invalid("", "the reference %q is to an anchor: only JSON pointers are read", clip.Bytes(ref, 200))
	}
	n, err := r.walk(ctx, root, slices.Collect(jsontext.Pointer(pointer).Tokens())...)
	if errors.Is(err, errNoNode) {
		err = agent.Invalid("", "the reference %q leads to nothing", clip.Bytes(ref, 200))
	}
	return n, err
}

var errNoNode = errors.New("there is no such member or element")

// walk returns the node at a path of member names and indexes below n. Its error is [errNoNode] if there is none.
func (r *resolver) walk(ctx context.Context, n node, tokens ...string) (node, error) {
	for _, name := range tokens {
		// The path may lead through a reference, for example into the properties of a referenced schema.
		if _, isRef := n.object()["$ref"].(string); isRef && name != "$ref" {
			var err error
			if n, err = r.resolve(ctx, n); err != nil {
				return node{}, err
			}
		}
		next, ok := n.child(name)
		if list, isList := n.value.([]any); isList {
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
				next, ok = node{file: n.file, pointer: n.pointer.AppendToken(strconv.Itoa(i)), value: list[i]}, true
			}
		}
		if !ok {
			return node{}, errNoNode
		}
		n = next
	}
	return n, nil
}

// openFile returns the name of another file in r.files. It fetches the file on first use.
func (r *resolver) openFile(ctx context.Context, from string, u *url.URL, ref string) (string, error) {
	root := r.doc.url
	if root == nil {
		return "", agent.Errorf(agent.CodeDenied, "", "the reference %q is to another file, and the document has no address", clip.Bytes(ref, 200))
	}
	base := root
	if from != "" {
		parsed, err := url.Parse(from)
		if err != nil {
			return "", agent.Invalid("", "the reference %q is no URL", clip.Bytes(ref, 200))
		}
		base = parsed
	}
	u = base.ResolveReference(u)
	if u.Scheme != root.Scheme || !strings.EqualFold(u.Host, root.Host) || u.User != nil {
		return "", agent.Errorf(agent.CodeDenied, "", "the reference %q leaves the origin of the document", clip.Bytes(ref, 200))
	}
	name := u.String()
	if name == root.String() {
		return "", nil
	}
	if _, isRead := r.files[name]; isRead {
		return name, nil
	}
	switch {
	case r.fetch == nil:
		return "", agent.Errorf(agent.CodeDenied, "", "the reference %q is to another file", clip.Bytes(ref, 200))
	case len(r.files) > maxFiles:
		return "", agent.Errorf(agent.CodeOverflow, "", "the operation needs more than %d other files", maxFiles)
	}
	data, err := r.fetch(ctx, u, maxFileBytes-r.bytes)
	if err != nil {
		return "", err
	}
	r.bytes += len(data)
	if r.bytes > maxFileBytes {
		return "", agent.Errorf(agent.CodeOverflow, "", "the other files that the operation needs are more than %d bytes", maxFileBytes)
	}
	v, err := decode(data)
	if err != nil {
		return "", agent.Errorf(agent.CodeOf(err), "", "the file of the reference %q %w", clip.Bytes(ref, 200), err)
	}
	r.files[name] = v
	return name, nil
}
