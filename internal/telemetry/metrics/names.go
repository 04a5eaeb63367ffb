package metrics

import (
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// The names that stand for others.
const (
	none    = "none"    // there is no name
	other   = "other"   // one name too many
	unknown = "unknown" // a name that a model made up, perhaps
)

// maxName is how long a name may be and still be a label, in bytes.
const maxName = 200

// names are the values that a label has had: the first ones, up to a bound, for as long as the process lives.
type names struct {
	mu    sync.RWMutex
	known map[string]struct{}
	limit int
	spilt prometheus.Counter // once for every time that a name gave way to other
}

func newNames(limit int, spilt prometheus.Counter) *names {
	return &names{known: map[string]struct{}{}, limit: limit, spilt: spilt}
}

// of returns the name, or what stands for it.
func (n *names) of(name string) string {
	if name == "" {
		return none
	}
	if n.has(name) {
		return name
	}
	if fit(name) && n.add(name) {
		return name
	}
	n.spilt.Inc()
	return other
}

func (n *names) has(name string) bool {
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

// family keeps the series of combinations of labels, so that they are looked up by one struct and not made out of strings each time. It has
// at most limit of them, and those in which other takes the place of every name.
type family[K comparable, S any] struct {
	mu     sync.RWMutex
	series map[K]S
	limit  int
	open   func(K) S
	fold   func(K) K // puts other in the place of the names that others choose
	spilt  prometheus.Counter
}

func newFamily[K comparable, S any](limit int, spilt prometheus.Counter, fold func(K) K, open func(K) S) *family[K, S] {
	return &family[K, S]{series: map[K]S{}, limit: limit, open: open, fold: fold, spilt: spilt}
}

func (f *family[K, S]) of(k K) S {
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
		f.spilt.Inc()
		k = f.fold(k)
		if s, ok := f.series[k]; ok {
			return s
		}
	}
	s := f.open(k)
	f.series[k] = s
	return s
}

// fit says whether a name may be a label as it is.
func fit(name string) bool { return name != "" && len(name) <= maxName && utf8.ValidString(name) }
