package openapi

import (
	"cmp"
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

// The bounds of the operations that a document caches: their number, and the total number of values in their schemas, about 500 bytes each.
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

	loading chan struct{} // has an element while an operation is read

	mu     sync.Mutex
	cached *simplelru.LRU[string, *Operation] // by the requested ID
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

// Parse reads a JSON or YAML document of at most [MaxBytes]. URLs of servers and other files are relative to from, the URL of the document, which
// may be nil. Parse checks only the version and lists the operations. Its error is [agent.CodeInvalid] or [agent.CodeOverflow].
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
	// NewLRU fails only if the size is less than 1.
	d.cached, _ = simplelru.NewLRU(maxOperations, func(_ string, op *Operation) { d.weight -= op.weight })
	d.index()
	return d, nil
}

// Size returns the length of the document in bytes.
func (d *Document) Size() int { return d.size }

// index lists the operations of the document itself. Path items in other files are read only if an operation is not found.
func (d *Document) index() {
	refs := newResolver(d, nil)
	for path, item := range d.pathItems() {
		if resolved, err := refs.resolve(context.Background(), item); err == nil {
			item = resolved
		}
		d.entries = append(d.entries, operationsOf(context.Background(), refs, path, item)...)
	}
}

// pathItems yields the path items, sorted by path.
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

// operationsOf returns the operations of a path item. Real documents have references instead of operations, although OpenAPI does not allow that.
// The ID of such an operation is missing unless its file has already been read.
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

// find returns the operation with an ID, or with a method and path: "GET /users/{id}".
func (d *Document) find(ctx context.Context, id string, refs *resolver) (*operationEntry, error) {
	candidates := d.entries
	matches := matchOperations(candidates, id)
	if len(matches) == 0 {
		others, err := d.operationsInOtherFiles(ctx, refs)
		if err != nil {
			return nil, err
		}
		candidates = append(slices.Clip(candidates), others...)
		matches = matchOperations(candidates, id)
	}
	switch len(matches) {
	case 1:
		return &matches[0], nil
	case 0:
		return nil, unknownOperationError(id, candidates)
	default:
		titles := make([]string, 0, maxSuggestions)
		for i := range matches[:min(maxSuggestions, len(matches))] {
			titles = append(titles, matches[i].title())
		}
		return nil, agent.Invalid("operation_id", "%q is the id of %d operations: name one by its method and path: %s",
			clip.Bytes(id, 100), len(matches), quoteNames(titles))
	}
}

// matchOperations returns the operations with an ID, or else those with a method and path.
func matchOperations(all []operationEntry, id string) []operationEntry {
	var matches []operationEntry
	for i := range all {
		if all[i].id == id {
			matches = append(matches, all[i])
		}
	}
	if method, path, ok := strings.Cut(id, " "); ok && len(matches) == 0 {
		for i := range all {
			if strings.EqualFold(all[i].method, method) && all[i].path == strings.TrimSpace(path) {
				matches = append(matches, all[i])
			}
		}
	}
	return matches
}

// operationsInOtherFiles returns the operations of path items that are, or refer to operations, in other files.
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
		names[i] = cmp.Or(all[i].id, all[i].title())
	}
	return agent.FieldErrorf(agent.CodeNotFound, "operation_id",
		"the document has no operation %q among its %d%s", clip.Bytes(id, 100), len(all), didYouMean(id, names))
}

// Method returns the method of the operation with an ID in upper case. It returns "" if the ID is unknown or not unique, or if the operation is in a
// file that has not been read yet.
func (d *Document) Method(id string) string {
	if matches := matchOperations(d.entries, id); len(matches) == 1 {
		return strings.ToUpper(matches[0].method)
	}
	return ""
}

// Operation returns the operation with an ID, or with a method and path: "GET /users/{id}". Its error is one of fetch, or describes a fault in the
// part of the document that the operation refers to: [agent.CodeInvalid], [agent.CodeNotFound] with similar IDs, [agent.CodeDenied] for references
// to another origin.
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

// cachedOperation returns the operation with an ID from the cache, nil if it is not cached.
func (d *Document) cachedOperation(id string) *Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	op, _ := d.cached.Get(id)
	return op
}

// cache adds an operation and removes the least recently used ones beyond the bounds. It never removes the added operation.
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
