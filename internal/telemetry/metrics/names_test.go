package metrics

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	overflow := prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."})
	n := newNames(2, overflow)
	for _, one := range []struct{ name, want string }{
		{"a", "a"}, {"", "none"}, {"\xff", "other"}, {strings.Repeat("x", 201), "other"}, {"b", "b"}, {"c", "other"}, {"a", "a"}, {"c", "other"},
	} {
		require.Equal(t, one.want, n.label(one.name), "%q", one.name)
	}
	require.InEpsilon(t, 4, testutil.ToFloat64(overflow), 0)
	require.True(t, n.isKnown("b"))
	require.False(t, n.isKnown("c"))
}

func TestConcurrentNames(t *testing.T) {
	n := newNames(50, prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 10_000 {
				n.label(fmt.Sprint("n", i))
			}
		})
	}
	all.Wait()
	require.Len(t, n.values, 50)
}

func TestFamilyFolds(t *testing.T) {
	type key struct{ name, kind string }
	overflow := prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."})
	opened := 0
	f := newFamily(3, overflow, func(k key) key { k.name = other; return k }, func(k key) *key { opened++; return &k })
	for i := range 100 {
		f.get(key{fmt.Sprint(i), "x"})
	}
	require.Equal(t, &key{other, "x"}, f.get(key{"100", "x"}))
	require.Equal(t, &key{"1", "x"}, f.get(key{"1", "x"}))
	require.Equal(t, 4, opened)
	require.InEpsilon(t, 98, testutil.ToFloat64(overflow), 0)
}
