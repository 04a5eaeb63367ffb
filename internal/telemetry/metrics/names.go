package metrics

import (
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels that replace names.
const (
	none    = "none"    // the name is empty
	other   = "other"   // the label has too many names
	unknown = "unknown" // a tool that has not run: a model may have made up its name
)

// maxName is how many bytes a name may have to be a label.
const maxName = 200

// names are the values of a label: the first names since the start, up to a limit.
type names struct {
	mu       sync.RWMutex
	values   map[string]struct{}
	limit    int
	overflow prometheus.Counter // counts the uses of "other"
}

func newNames(limit int, overflow prometheus.Counter) *names {
	return &names{values: map[string]struct{}{}, limit: limit, overflow: overflow}
}

// label returns the name, or "none" or "other".
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

// isKnown reports whether a name is a value of the label.
func (n *names) isKnown(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, ok := n.values[name]
	return ok
}

// add adds a name, and reports whether it is a value of the label now.
func (n *names) add(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.values[name]; ok {
		return true
	}
	if len(n.values) >= n.limit {
		return false
	}
	n.values[name] = struct{}{}
	return true
}

// family is a bounded set of series. K is a combination of labels, and S is the struct with the series of a combination. Further combinations become ones
// with "other" for every name.
type family[K comparable, S any] struct {
	mu        sync.RWMutex
	series    map[K]S
	limit     int
	newSeries func(K) S
	fold      func(K) K // replaces the names with other
	overflow  prometheus.Counter
}

func newFamily[K comparable, S any](limit int, overflow prometheus.Counter, fold func(K) K, newSeries func(K) S) *family[K, S] {
	return &family[K, S]{series: map[K]S{}, limit: limit, newSeries: newSeries, fold: fold, overflow: overflow}
}

// get returns the series of a combination.
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
	s := f.newSeries(k)
	f.series[k] = s
	return s
}

// isValidLabel reports whether a name may be a label.
func isValidLabel(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name)
}
