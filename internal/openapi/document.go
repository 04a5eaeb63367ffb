package openapi

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of the operations that a document caches: their number, and the values that their schemas have together, some 500 bytes each.
const (
	maxOperations = 64
	maxWeight     = 100_000
)

// methods returns the methods of a path item, in the order in which they are listed.
func methods() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}
}

// Document is an OpenAPI document. It is safe for concurrent use.
type Document struct {
	root    map[string]any
	url     *url.URL
	size    int
	is30    bool
	entries []operationEntry

	loading chan struct{} // held while an operation is read

	mu     sync.Mutex
	cached *simplelru.LRU[string, *Operation] // by the id that a caller gave
	weight int
}

// operationEntry is an operation of the index.
type operationEntry struct {
	id, method, path string
	item             node // the path item
}

func (e *operationEntry) title() string { return strings.ToUpper(e.method) + " " + e.path }

var (
	version3  = regexp.MustCompile(`^3\.[012](\.\d|$)`)
	version30 = regexp.MustCompile(`^3\.0(\.|$)`)
)

// Parse reads a document, JSON or YAML, at most [MaxBytes]. Relative addresses of servers and other files are relative to from, which is
// nil for a document without an address. Only its version and its operations are looked at. Errors are [agent.CodeInvalid] and
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
	d := &Document{root: root, url: from, size: len(data), is30: version30.MatchString(version), loading: make(chan struct{}, 1)}
	// NewLRU fails only for a size below 1.
	d.cached, _ = simplelru.NewLRU(maxOperations, func(_ string, op *Operation) { d.weight -= op.weight })
	d.index()
	return d, nil
}

// Size returns the length of the document in bytes.
func (d *Document) Size() int { return d.size }

// index lists the operations. A path item in another file is read when an operation is not found otherwise.
func (d *Document) index() {
	refs := newResolver(d, nil)
	for path, item := range d.pathItems() {
		if resolved, err := refs.resolve(context.Background(), item); err == nil {
			item = resolved
		}
		d.entries = append(d.entries, operationsOf(context.Background(), refs, path, item)...)
	}
}

// pathItems yields the path items in the order of their paths.
func (d *Document) pathItems() iter.Seq2[string, node] {
	paths := node{pointer: "/paths", value: d.root["paths"]}
	return func(yield func(string, node) bool) {
		for _, path := range sortedKeys(paths.object()) {
			if item, _ := paths.child(path); !yield(path, item) {
				return
			}
		}
	}
}

// operationsOf lists the operations of a path item. OpenAPI allows no reference in the place of an operation, but real documents have them.
// Such an operation is listed with its method and path, and with its id if its file is read already.
func operationsOf(ctx context.Context, refs *resolver, path string, item node) []operationEntry {
	var all []operationEntry
	for _, method := range methods() {
		op, _ := item.child(method)
		if op.object() == nil {
			continue
		}
		if resolved, err := refs.resolve(ctx, op); err == nil {
			op = resolved
		}
		id, _ := op.object()["operationId"].(string)
		all = append(all, operationEntry{id: id, method: method, path: path, item: item})
	}
	return all
}

// find returns the operation of an id, or of a method and path: "GET /users/{id}".
func (d *Document) find(ctx context.Context, id string, refs *resolver) (*operationEntry, error) {
	candidates := d.entries
	hits := matchOperations(candidates, id)
	if len(hits) == 0 {
		more, err := d.operationsInOtherFiles(ctx, refs)
		if err != nil {
			return nil, err
		}
		candidates = append(slices.Clip(candidates), more...)
		hits = matchOperations(candidates, id)
	}
	switch len(hits) {
	case 1:
		return &hits[0], nil
	case 0:
		return nil, unknownOperationError(id, candidates)
	default:
		titles := make([]string, 0, maxSuggestions)
		for i := range hits[:min(maxSuggestions, len(hits))] {
			titles = append(titles, hits[i].title())
		}
		return nil, agent.Invalid("operation_id", "%q is the id of %d operations: name one by its method and path: %s",
			clip.Bytes(id, 100), len(hits), quoteNames(titles))
	}
}

func matchOperations(all []operationEntry, id string) []operationEntry {
	var hits []operationEntry
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

// operationsInOtherFiles lists the operations of path items that are in other files, or have operations there.
func (d *Document) operationsInOtherFiles(ctx context.Context, refs *resolver) ([]operationEntry, error) {
	var all []operationEntry
	for path, item := range d.pathItems() {
		if !refersToOtherFile(item) {
			continue
		}
		resolved, err := refs.resolve(ctx, item)
		if err != nil {
			return nil, agent.Errorf(agent.CodeOf(err), "", "path %q: %w", clip.Bytes(path, 100), err)
		}
		all = append(all, operationsOf(ctx, refs, path, resolved)...)
	}
	return all, nil
}

// refersToOtherFile reports whether a path item or one of its operations is a reference to another file.
func refersToOtherFile(item node) bool {
	nodes := []node{item}
	for _, method := range methods() {
		op, _ := item.child(method)
		nodes = append(nodes, op)
	}
	return slices.ContainsFunc(nodes, func(n node) bool {
		ref, ok := n.object()["$ref"].(string)
		return ok && !strings.HasPrefix(ref, "#")
	})
}

func unknownOperationError(id string, all []operationEntry) error {
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
		"the document has no operation %q among its %d%s", clip.Bytes(id, 100), len(all), didYouMean(id, names))
}

// Method returns the method of an operation in upper case. It is "" if the document has no such id, has it more than once, or has the
// operation in a file that is not read yet.
func (d *Document) Method(id string) string {
	if hits := matchOperations(d.entries, id); len(hits) == 1 {
		return strings.ToUpper(hits[0].method)
	}
	return ""
}

// Operation returns the operation of an id, or of a method and path: "GET /users/{id}". Its errors say what is wrong in the part of the
// document that the operation reaches: [agent.CodeInvalid], [agent.CodeNotFound] with the most similar ids, [agent.CodeDenied] for
// references that leave the origin, and those of fetch.
func (d *Document) Operation(ctx context.Context, id string, fetch Fetch) (*Operation, error) {
	if op := d.cachedOperation(id); op != nil {
		return op, nil
	}
	select {
	case d.loading <- struct{}{}:
		defer func() { <-d.loading }()
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
	if op := d.cachedOperation(id); op != nil {
		return op, nil
	}
	refs := newResolver(d, fetch)
	entry, err := d.find(ctx, id, refs)
	if err != nil {
		return nil, err
	}
	op, err := d.load(ctx, entry, refs)
	if err != nil {
		return nil, fmt.Errorf("operation %q: %w", clip.Bytes(id, 100), err)
	}
	d.cache(id, op)
	return op, nil
}

// cachedOperation returns an operation that was used lately, nil if there is none of that id.
func (d *Document) cachedOperation(id string) *Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	op, _ := d.cached.Get(id)
	return op
}

// cache adds an operation and removes those that were used longest ago. The last one stays, whatever its weight.
func (d *Document) cache(id string, op *Operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cached.Add(id, op)
	d.weight += op.weight
	for d.cached.Len() > 1 && d.weight > maxWeight {
		d.cached.RemoveOldest()
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
