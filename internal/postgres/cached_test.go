package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func (b *bench) remembers(key, ref string, ttl time.Duration) {
	b.t.Helper()
	require.NoError(b.t, b.RememberResult(b.t.Context(), tenant, key, json.RawMessage(`{"of":"`+key+`"}`), ref, ttl))
}

func (b *bench) recalls(tenant, key string) string {
	b.t.Helper()
	body, ok, err := b.RecallResult(b.t.Context(), tenant, key)
	require.NoError(b.t, err)
	require.Equal(b.t, ok, body != nil)
	return string(body)
}

func TestCachedResults(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.Empty(t, b.recalls(tenant, "k"))
	b.putting(tenant, cas("a"))
	b.remembers("k", cas("a"), time.Hour)
	require.JSONEq(t, `{"of":"k"}`, b.recalls(tenant, "k"))
	require.Empty(t, b.recalls("evil", "k"))
	require.Empty(t, b.recalls(tenant, "K"))
	require.Equal(t, []string{"cache/k"}, b.holders(tenant, cas("a")))

	b.remembers("gone", cas("b"), time.Hour)
	require.Empty(t, b.recalls(tenant, "gone"), "nobody has put its content")

	b.putting(tenant, cas("b"))
	b.remembers("k", cas("b"), time.Hour)
	require.Empty(t, b.holders(tenant, cas("a")))
	require.Equal(t, []string{"cache/gone", "cache/k"}, b.holders(tenant, cas("b")))
	_, err := b.pool.Exec(t.Context(), `UPDATE result_cache SET expires_at = clock_timestamp() WHERE key = 'k'`)
	require.NoError(t, err)
	require.Empty(t, b.recalls(tenant, "k"), "its time is over")
	b.remembers("k", cas("b"), time.Hour)
	require.NotEmpty(t, b.recalls(tenant, "k"))
}

// Whoever was told of a dataset at the last moment can still refer to it.
func TestCachedContentOutlivesItsTime(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.putting(tenant, cas("a"))
	b.remembers("k", cas("a"), time.Hour)
	b.age()
	expire := func(ago string) int {
		_, err := b.pool.Exec(t.Context(), `UPDATE result_cache SET expires_at = clock_timestamp() - $1::interval`, ago)
		require.NoError(t, err)
		n, err := b.ExpireCached(t.Context(), 100)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, expire("59 minutes"))
	require.False(t, b.released(tenant, cas("a")))
	require.Equal(t, 1, expire("61 minutes"))
	require.Empty(t, b.holders(tenant, cas("a")))
	b.age()
	require.True(t, b.released(tenant, cas("a")))

	b.putting(tenant, cas("b"))
	b.putting(tenant, cas("c"))
	b.remembers("k", cas("b"), time.Hour)
	b.age()
	b.remembers("k", cas("c"), time.Hour) // replaced a moment after it was recalled
	require.False(t, b.released(tenant, cas("b")))
	b.age()
	require.True(t, b.released(tenant, cas("b")))
}

func TestCachedResultsAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	_, err := b.pool.Exec(t.Context(), `INSERT INTO result_cache (tenant, key, body, digest, remembered_at, expires_at)
		SELECT $1, 'k' || i, '1', repeat('a', 64), clock_timestamp() - i * interval '1 s', clock_timestamp() + interval '1 h'
		FROM generate_series(1, 10001) AS i`, tenant)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO result_cache SELECT 'other', key, body, digest, remembered_at, expires_at FROM result_cache`)
	require.NoError(t, err)
	b.putting(tenant, cas("a"))
	b.age()
	b.remembers("new", cas("b"), time.Hour)
	require.Equal(t, 10_000, b.count("result_cache WHERE tenant = 'acme'"))
	require.Equal(t, 10_001, b.count("result_cache WHERE tenant = 'other'"))
	require.Zero(t, b.count("result_cache WHERE tenant = 'acme' AND key IN ('k10000', 'k10001')"), "the oldest went")
	require.Equal(t, 1, b.count("blobs WHERE put_at > clock_timestamp() - interval '1 min'"), "and their content is as if it were just put")

	for range 2 {
		_, err = b.pool.Exec(t.Context(), `UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h' WHERE tenant = 'other'`)
		require.NoError(t, err)
		n, err := b.ExpireCached(t.Context(), 6000)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 6000)
	}
	require.Zero(t, b.count("result_cache WHERE tenant = 'other'"))
}

func TestRememberResultRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for name, test := range map[string]struct {
		key, body, ref string
		ttl            time.Duration
		want           agent.Code
	}{
		"no key":       {"", "1", cas("a"), time.Hour, agent.CodeInvalid},
		"long key":     {strings.Repeat("k", 257), "1", cas("a"), time.Hour, agent.CodeInvalid},
		"NUL":          {"a\x00", "1", cas("a"), time.Hour, agent.CodeInvalid},
		"no reference": {"k", "1", "", time.Hour, agent.CodeInvalid},
		"no time":      {"k", "1", cas("a"), 0, agent.CodeInvalid},
		"no JSON":      {"k", "{", cas("a"), time.Hour, agent.CodeInvalid},
		"large":        {"k", `"` + strings.Repeat("x", 1<<20) + `"`, cas("a"), time.Hour, agent.CodeOverflow},
	} {
		requireCode(t, test.want, b.RememberResult(t.Context(), tenant, test.key, json.RawMessage(test.body), test.ref, test.ttl))
		require.Zero(t, b.count("result_cache")+b.count("blob_refs"), name)
	}
	b.putting(tenant, cas("a"))
	b.remembers("k", cas("a"), 1000*time.Hour)
	require.Equal(t, 1, b.count(fmt.Sprintf("result_cache WHERE expires_at < clock_timestamp() + interval '%d h'", 31*24)))
}
