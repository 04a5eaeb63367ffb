package openapi

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of the operations that a document keeps: how many, and how many values their schemas have together, some 500 bytes each.
const (
	maxOperations = 64
	maxWeight     = 100_000
)

// methods are those of a path item, in the order in which they are listed.
func methods() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}
}

// Document is an OpenAPI document. It is safe for concurrent use.
type Document struct {
	root  map[string]any
	url   *url.URL
	size  int
	is30  bool
	found []found

	making chan struct{} // held by who makes an operation

	mu     sync.Mutex
	made   []kept // the last used first
	weight int
}

// kept is an operation that was made, by what it was asked for as.
type kept struct {
	id string
	op *Operation
}

// found is an operation of the index.
type found struct {
	id, method, path string
	item             place // of the path item
}

func (f *found) title() string { return strings.ToUpper(f.method) + " " + f.path }

var (
	version3  = regexp.MustCompile(`^3\.[012](\.\d|$)`)
	version30 = regexp.MustCompile(`^3\.0(\.|$)`)
)

// Parse reads a document, JSON or YAML, at most [MaxBytes]. from is where it is from: relative addresses of servers and other files are
// relative to it; nil when it is from nowhere. Only its version and its operations are looked at. Errors are [agent.CodeInvalid] and
// [agent.CodeOverflow].
func Parse(data []byte, from *url.URL) (*Document, error) {
	v, err := decode(data)
	if err != nil {
		return nil, agent.Errorf(agent.CodeOf(err), "", "the document %w", err)
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the document is no OpenAPI document: it is no object")
	}
	version := ""
	switch v := root["openapi"].(type) {
	case string:
		version = v
	case fmt.Stringer: // openapi: 3.1, a number in YAML
		version = v.String()
	}
	if old, isOld := root["swagger"]; isOld && version == "" {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the document is Swagger %.10v: only OpenAPI 3.0 and 3.1 are read", old)
	}
	if !version3.MatchString(version) {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the document is no OpenAPI 3 document: openapi is %q", clip.Bytes(version, 20))
	}
	d := &Document{root: root, url: from, size: len(data), is30: version30.MatchString(version), making: make(chan struct{}, 1)}
	d.index()
	return d, nil
}

// Size is the length of the document, in bytes.
func (d *Document) Size() int { return d.size }

// index lists the operations; what a path item in another file has is found when it is looked for.
func (d *Document) index() {
	r := newResolver(d, nil)
	paths := place{at: "/paths", node: d.root["paths"]}
	for _, path := range sorted(paths.object()) {
		item, _ := paths.child(path)
		if resolved, err := r.follow(context.Background(), item); err == nil {
			item = resolved
		}
		d.found = append(d.found, operationsOf(context.Background(), r, path, item)...)
	}
}

// operationsOf lists the operations of a path item. One that is a reference is allowed by no version of OpenAPI, but real documents have
// them: it is listed with its id once its file is read, and by its method and path at once.
func operationsOf(ctx context.Context, r *resolver, path string, item place) []found {
	var all []found
	for _, method := range methods() {
		op, ok := item.child(method)
		if op.object() == nil || !ok {
			continue
		}
		if resolved, err := r.follow(ctx, op); err == nil {
			op = resolved
		}
		id, _ := op.object()["operationId"].(string)
		all = append(all, found{id: id, method: method, path: path, item: item})
	}
	return all
}

// find returns the operation of an id, or of a method and path: "GET /users/{id}".
func (d *Document) find(ctx context.Context, id string, r *resolver) (*found, error) {
	candidates := d.found
	hits := matching(candidates, id)
	if len(hits) == 0 {
		more, err := d.elsewhere(ctx, r)
		if err != nil {
			return nil, err
		}
		candidates = append(slices.Clip(candidates), more...)
		hits = matching(candidates, id)
	}
	switch len(hits) {
	case 1:
		return &hits[0], nil
	case 0:
		return nil, d.unknown(id, candidates)
	default:
		titles := make([]string, 0, maxNear)
		for i := range hits[:min(maxNear, len(hits))] {
			titles = append(titles, hits[i].title())
		}
		return nil, agent.Invalid("operation_id", "%q is the id of %d operations: name one by its method and path: %s",
			clip.Bytes(id, 100), len(hits), quoted(titles))
	}
}

func matching(all []found, id string) []found {
	var hits []found
	for i := range all {
		if all[i].id == id {
			hits = append(hits, all[i])
		}
	}
	if method, path, ok := strings.Cut(id, " "); ok && len(hits) == 0 {
		for i := range all {
			if strings.EqualFold(all[i].method, method) && all[i].path == strings.TrimSpace(path) {
				hits = append(hits, all[i])
			}
		}
	}
	return hits
}

// elsewhere lists the operations of path items that are in other files, or have operations there.
func (d *Document) elsewhere(ctx context.Context, r *resolver) ([]found, error) {
	var all []found
	paths := place{at: "/paths", node: d.root["paths"]}
	for _, path := range sorted(paths.object()) {
		item, _ := paths.child(path)
		if !leadsElsewhere(item) {
			continue
		}
		resolved, err := r.follow(ctx, item)
		if err != nil {
			return nil, agent.Errorf(agent.CodeOf(err), "", "path %q: %w", clip.Bytes(path, 100), err)
		}
		all = append(all, operationsOf(ctx, r, path, resolved)...)
	}
	return all, nil
}

// leadsElsewhere reports whether a path item or one of its operations is a reference to another file.
func leadsElsewhere(item place) bool {
	for _, member := range append([]string{""}, methods()...) {
		of := item
		if member != "" {
			of, _ = item.child(member)
		}
		if ref, ok := of.object()["$ref"].(string); ok && !strings.HasPrefix(ref, "#") {
			return true
		}
	}
	return false
}

func (d *Document) unknown(id string, all []found) error {
	if len(all) == 0 {
		return agent.FieldErrorf(agent.CodeNotFound, "operation_id", "the document has no operations")
	}
	names := make([]string, len(all))
	for i := range all {
		if names[i] = all[i].id; names[i] == "" {
			names[i] = all[i].title()
		}
	}
	return agent.FieldErrorf(agent.CodeNotFound, "operation_id",
		"the document has no operation %q among its %d%s", clip.Bytes(id, 100), len(all), didYouMean(near(id, names)))
}

// Method is the method of an operation, "" when the document has none of that id, more than one, or one in a file that is not read yet.
func (d *Document) Method(id string) string {
	if hits := matching(d.found, id); len(hits) == 1 {
		return strings.ToUpper(hits[0].method)
	}
	return ""
}

// Operation makes the operation of an id, or of a method and path: "GET /users/{id}". Its errors say what is wrong in the document, as far as
// the operation reaches: [agent.CodeInvalid], [agent.CodeNotFound] with the ids that are most alike, [agent.CodeDenied] for references that
// leave the origin, and those of fetch.
func (d *Document) Operation(ctx context.Context, id string, fetch Fetch) (*Operation, error) {
	if op := d.again(id); op != nil {
		return op, nil
	}
	select {
	case d.making <- struct{}{}:
		defer func() { <-d.making }()
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
	if op := d.again(id); op != nil {
		return op, nil
	}
	r := newResolver(d, fetch)
	f, err := d.find(ctx, id, r)
	if err != nil {
		return nil, err
	}
	op, err := d.load(ctx, f, r)
	if err != nil {
		return nil, fmt.Errorf("operation %q: %w", clip.Bytes(id, 100), err)
	}
	d.keep(id, op)
	return op, nil
}

// again returns an operation that was made before, nil when it was not, or not lately.
func (d *Document) again(id string) *Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range d.made {
		if k.id == id {
			copy(d.made[1:i+1], d.made[:i])
			d.made[0] = k
			return k.op
		}
	}
	return nil
}

// keep makes room for an operation: those that were used longest ago go. The last one stays, whatever it weighs.
func (d *Document) keep(id string, op *Operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = slices.Insert(d.made, 0, kept{id, op})
	d.weight += op.weight
	for len(d.made) > 1 && (len(d.made) > maxOperations || d.weight > maxWeight) {
		last := len(d.made) - 1
		d.weight -= d.made[last].op.weight
		d.made = slices.Delete(d.made, last, last+1)
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
