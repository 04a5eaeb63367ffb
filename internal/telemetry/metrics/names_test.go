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
	spilt := prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."})
	n := newNames(2, spilt)
	for _, one := range []struct{ name, want string }{
		{"a", "a"}, {"", "none"}, {"\xff", "other"}, {strings.Repeat("x", 201), "other"}, {"b", "b"}, {"c", "other"}, {"a", "a"}, {"c", "other"},
	} {
		require.Equal(t, one.want, n.of(one.name), "%q", one.name)
	}
	require.InEpsilon(t, 4, testutil.ToFloat64(spilt), 0)
	require.True(t, n.has("b"))
	require.False(t, n.has("c"))
}

func TestNamesAtOnce(t *testing.T) {
	n := newNames(50, prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 10_000 {
				n.of(fmt.Sprint("n", i))
			}
		})
	}
	all.Wait()
	require.Len(t, n.known, 50)
}

func TestFamilyFolds(t *testing.T) {
	type key struct{ name, kind string }
	spilt := prometheus.NewCounter(prometheus.CounterOpts{Name: "spilt_total", Help: "For the test."})
	opened := 0
	f := newFamily(3, spilt, func(k key) key { k.name = other; return k }, func(k key) *key { opened++; return &k })
	for i := range 100 {
		f.of(key{fmt.Sprint(i), "x"})
	}
	require.Equal(t, &key{other, "x"}, f.of(key{"100", "x"}))
	require.Equal(t, &key{"1", "x"}, f.of(key{"1", "x"}))
	require.Equal(t, 4, opened)
	require.InEpsilon(t, 98, testutil.ToFloat64(spilt), 0)
}
