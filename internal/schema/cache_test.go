package schema

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func TestCacheCompilesOnce(t *testing.T) {
	c := newCache(10, 1<<20)
	s := []byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"string"}}}`)
	got := make([]*Schema, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = c.get(s) })
	}
	wg.Wait()
	for _, g := range got {
		require.NotNil(t, g)
		require.Same(t, got[0], g)
	}
	bad := []byte(`{"type":"x"}`)
	_, first := c.get(bad)
	_, second := c.get(bad)
	require.NotNil(t, first)
	require.Same(t, &first[0], &second[0], "faults are cached, too")
}

func TestCacheIsBounded(t *testing.T) {
	sized := func(i, bytes int) []byte {
		head := fmt.Sprintf(`{"title":"%d`, i)
		return []byte(head + strings.Repeat("x", bytes-len(head)-2) + `"}`)
	}
	weight := func(bytes int) int {
		return (&entry{schema: &Schema{byURL: map[string]*jsonschema.Schema{"": nil}}}).weight(bytes)
	}
	c := newCache(3, 1<<40)
	for i := range 10 {
		_, p := c.get(sized(i, 100))
		require.Nil(t, p)
	}
	require.Equal(t, 3, c.lru.Len())
	require.Equal(t, 3*weight(100), c.bytes)

	c = newCache(100, 2*weight(1000))
	first, _ := c.get(sized(0, 1000))
	_, _ = c.get(sized(1, 1000))
	again, _ := c.get(sized(0, 1000))
	require.Same(t, first, again)
	_, _ = c.get(sized(2, 1000)) // removes the least recently used schema
	require.Equal(t, 2, c.lru.Len())
	again, _ = c.get(sized(0, 1000))
	require.Same(t, first, again)
	_, _ = c.get(sized(3, 5000))
	require.Equal(t, 1, c.lru.Len(), "the newest schema is never removed")
	require.Equal(t, weight(5000), c.bytes)
	_, p := c.get(make([]byte, MaxSchema+1))
	require.NotNil(t, p)
	require.Equal(t, 1, c.lru.Len(), "a schema that is too long is not cached")
}

func TestCheckIsConcurrent(t *testing.T) {
	c := New()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				s := fmt.Appendf(nil, `{"type":"object","properties":{"n":{"maximum":%d}}}`, j%7)
				err := c.Check("x", s, fmt.Appendf(nil, `{"n":%d}`, i))
				if i > j%7 {
					require.EqualError(t, err, fmt.Sprintf("x.n: want at most %d, got %d", j%7, i))
				} else {
					require.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
}
