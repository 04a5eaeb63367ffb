package openapi

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of references from one operation.
const (
	maxHops      = 200 // of one chain
	maxFiles     = 32
	maxFileBytes = MaxBytes // of all other files together
)

// Fetch reads another file of a document, by its URL without a fragment, at most max bytes. It is asked only for URLs of the origin that the
// document comes from.
type Fetch func(ctx context.Context, u *url.URL, maximum int) ([]byte, error)

// place is a value in a file. at is the file and the JSON pointer, which make it the same place for references that are written differently.
type place struct {
	file string // its URL; "" for the document itself
	at   string
	node any
}

func (p place) object() map[string]any {
	m, _ := p.node.(map[string]any)
	return m
}

// child is a member of an object, ok false when there is none.
func (p place) child(name string) (place, bool) {
	node, ok := p.object()[name]
	return place{file: p.file, at: p.at + "/" + escapeToken(name), node: node}, ok
}

// element is one of a list.
func (p place) element(i int, node any) place {
	return place{file: p.file, at: p.at + "/" + strconv.Itoa(i), node: node}
}

func (p place) where() string { return p.file + "#" + p.at }

// resolver follows references. It belongs to the making of one operation.
type resolver struct {
	doc   *Document
	fetch Fetch
	files map[string]any
	bytes int
}

func newResolver(doc *Document, fetch Fetch) *resolver {
	return &resolver{doc: doc, fetch: fetch, files: map[string]any{"": doc.root}}
}

// follow returns what a place refers to, through as many references as there are; a place that is no reference is returned as it is.
func (r *resolver) follow(ctx context.Context, p place) (place, error) {
	seen := map[string]bool{}
	for {
		ref, ok := p.object()["$ref"].(string)
		if !ok {
			return p, nil
		}
		if seen[p.where()] || len(seen) >= maxHops {
			return p, agent.Invalid("", "the reference %q leads to itself, or through more than %d others", clip.Bytes(ref, 200), maxHops)
		}
		seen[p.where()] = true
		next, err := r.target(ctx, p.file, ref)
		if err != nil {
			return p, err
		}
		p = next
	}
}

// target is what a reference in a file points to; that may be a reference again.
func (r *resolver) target(ctx context.Context, file, ref string) (place, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return place{}, agent.Invalid("", "the reference %q is no URL", clip.Bytes(ref, 200))
	}
	pointer := u.Fragment
	if u.Fragment, u.RawFragment = "", ""; u.String() != "" {
		if file, err = r.open(ctx, file, u, ref); err != nil {
			return place{}, err
		}
	}
	p := place{file: file, node: r.files[file]}
	if pointer == "" {
		return p, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return place{}, agent.Invalid("", "the reference %q is to an anchor: only JSON pointers are read", clip.Bytes(ref, 200))
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		name := unescapeToken(token)
		// A pointer may lead through a reference, as into the properties of a schema that is one.
		if _, through := p.object()["$ref"].(string); through && name != "$ref" {
			if p, err = r.follow(ctx, p); err != nil {
				return place{}, err
			}
		}
		next, ok := p.child(name)
		if list, isList := p.node.([]any); isList {
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
				next, ok = p.element(i, list[i]), true
			}
		}
		if !ok {
			return place{}, agent.Invalid("", "the reference %q leads to nothing", clip.Bytes(ref, 200))
		}
		p = next
	}
	return p, nil
}

// open returns the name of another file, read when it is met first.
func (r *resolver) open(ctx context.Context, from string, u *url.URL, ref string) (string, error) {
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
	if _, known := r.files[name]; known {
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
	if r.bytes += len(data); r.bytes > maxFileBytes {
		return "", agent.Errorf(agent.CodeOverflow, "", "the other files that the operation needs are more than %d bytes", maxFileBytes)
	}
	v, err := decode(data)
	if err != nil {
		return "", agent.Errorf(agent.CodeOf(err), "", "the file of the reference %q %w", clip.Bytes(ref, 200), err)
	}
	r.files[name] = v
	return name, nil
}

// escapeToken writes a name as a part of a JSON pointer.
func escapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}

// escapeFragment writes a name as a part of a JSON pointer that stands in a URL.
func escapeFragment(name string) string {
	var b strings.Builder
	for _, c := range []byte(escapeToken(name)) {
		if c == '%' || c == '"' || c <= ' ' || c >= 0x7f {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(0x100|int64(c), 16)[1:]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
