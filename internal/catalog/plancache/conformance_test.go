package plancache

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// TestSharedTiers tests what every shared tier must do.
func TestSharedTiers(t *testing.T) {
	exerciseTier(t, "Redis", func(t *testing.T) Shared { return openTier(t, "redis://"+miniredis.RunT(t).Addr(), redisTTL) })
	exerciseTier(t, "fake", func(*testing.T) Shared { return &fakeTier{} })
}

// exerciseTier runs the suite. open returns an empty tier.
func exerciseTier(t *testing.T, tier string, open func(t *testing.T) Shared) {
	t.Helper()
	const one, other = "sha256:1", "sha256:2"
	cases := map[string]func(t *testing.T, s Shared){
		"what was never set is not found": func(t *testing.T, s Shared) {
			absent(t, s, one)
			require.NoError(t, s.Drop(t.Context(), one))
		},
		"what was set is found until it is dropped": func(t *testing.T, s Shared) {
			body := []byte("{\"a\":\"\x00\xff\r\n\"}")
			require.NoError(t, s.Set(t.Context(), one, body))
			has(t, s, one, body)
			absent(t, s, other)
			require.NoError(t, s.Set(t.Context(), other, []byte("2")))
			require.NoError(t, s.Drop(t.Context(), one))
			absent(t, s, one)
			has(t, s, other, []byte("2"))
		},
		"the last one set counts": func(t *testing.T, s Shared) {
			require.NoError(t, s.Set(t.Context(), one, []byte("a longer one")))
			require.NoError(t, s.Set(t.Context(), one, []byte("short")))
			has(t, s, one, []byte("short"))
		},
		"the largest plan": func(t *testing.T, s Shared) {
			body := bytes.Repeat([]byte("0123456789abcdef"), MaxPlan/16)
			require.NoError(t, s.Set(t.Context(), one, body))
			got, ok, err := s.Get(t.Context(), one)
			require.NoError(t, err)
			require.True(t, ok)
			require.True(t, bytes.Equal(body, got))
		},
		"the bytes are the caller's": func(t *testing.T, s Shared) {
			body := []byte("abc")
			require.NoError(t, s.Set(t.Context(), one, body))
			body[0] = 'X'
			got, _, err := s.Get(t.Context(), one)
			require.NoError(t, err)
			got[1] = 'X'
			has(t, s, one, []byte("abc"))
		},
		"a context that has ended": func(t *testing.T, s Shared) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			_, _, err := s.Get(ctx, one)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, s.Set(ctx, one, []byte("1")), context.Canceled)
			require.ErrorIs(t, s.Drop(ctx, one), context.Canceled)
			require.Less(t, time.Since(began), 5*time.Second)
			absent(t, s, one)
		},
		"many at a time": func(t *testing.T, s Shared) {
			var g errgroup.Group
			for i := range 20 {
				g.Go(func() error {
					hash, body := fmt.Sprintf("sha256:%d", i%5), fmt.Append(nil, i%5)
					if err := s.Set(t.Context(), hash, body); err != nil {
						return err
					}
					got, ok, err := s.Get(t.Context(), hash)
					if err == nil && (!ok || !bytes.Equal(got, body)) {
						err = fmt.Errorf("%s is %q, %t", hash, got, ok)
					}
					return err
				})
			}
			require.NoError(t, g.Wait())
		},
	}
	for name, c := range cases {
		t.Run(tier+"/"+name, func(t *testing.T) { c(t, open(t)) })
	}
}

func has(t *testing.T, s Shared, hash string, want []byte) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), hash)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
}

func absent(t *testing.T, s Shared, hash string) {
	t.Helper()
	_, ok, err := s.Get(t.Context(), hash)
	require.NoError(t, err)
	require.False(t, ok)
}
