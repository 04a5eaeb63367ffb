package metrics

import (
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels that replace names.
const (
	none    = "none"    // there is no name
	other   = "other"   // one name too many
	unknown = "unknown" // a name that a model made up, perhaps
)

// maxName is the most bytes of a name that may be a label.
const maxName = 200

// names are the values of a label: the first ones since the start, up to a bound.
type names struct {
	mu       sync.RWMutex
	known    map[string]struct{}
	limit    int
	overflow prometheus.Counter // counts the names that became "other"
}

func newNames(limit int, overflow prometheus.Counter) *names {
	return &names{known: map[string]struct{}{}, limit: limit, overflow: overflow}
}

// label returns the name, or the label that replaces it.
func (n *names) label(name string) string {
	if name == "" {
		return none
	}
	if n.isKnown(name) {
		return name
	}
	if isValidLabel(name) && n.add(name) {
		return name
	}
	n.overflow.Inc()
	return other
}

func (n *names) isKnown(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, ok := n.known[name]
	return ok
}

func (n *names) add(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; ok {
		return true
	}
	if len(n.known) >= n.limit {
		return false
	}
	n.known[name] = struct{}{}
	return true
}

// family keeps the series of combinations of labels, so that one struct finds them. It has at most limit of them, and those in which every
// name is "other".
type family[K comparable, S any] struct {
	mu       sync.RWMutex
	series   map[K]S
	limit    int
	open     func(K) S
	fold     func(K) K // puts other in the place of the names that others choose
	overflow prometheus.Counter
}

func newFamily[K comparable, S any](limit int, overflow prometheus.Counter, fold func(K) K, open func(K) S) *family[K, S] {
	return &family[K, S]{series: map[K]S{}, limit: limit, open: open, fold: fold, overflow: overflow}
}

func (f *family[K, S]) get(k K) S {
	f.mu.RLock()
	s, ok := f.series[k]
	f.mu.RUnlock()
	if ok {
		return s
	}
	return f.add(k)
}

func (f *family[K, S]) add(k K) S {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.series[k]; ok {
		return s
	}
	if len(f.series) >= f.limit {
		f.overflow.Inc()
		k = f.fold(k)
		if s, ok := f.series[k]; ok {
			return s
		}
	}
	s := f.open(k)
	f.series[k] = s
	return s
}

// isValidLabel reports whether a name may be a label.
func isValidLabel(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name)
}
