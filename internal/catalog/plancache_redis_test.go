package catalog

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const testHash = "sha256:00"

// openTier returns a tier with a timeout that is long enough for a loaded machine.
func openTier(t *testing.T, url string, ttl time.Duration) *RedisPlans {
	t.Helper()
	tier, err := openRedisPlans(url, ttl, 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

func TestRedisPlansKeys(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("me", "secret")
	tier := openTier(t, "redis://me:secret@"+server.Addr()+"/3", time.Minute)
	require.NoError(t, tier.Set(t.Context(), testHash, []byte("body")))
	db := server.DB(3)
	require.Equal(t, []string{"turnstone:plan:sha256:00"}, db.Keys())
	got, err := db.Get("turnstone:plan:sha256:00")
	require.NoError(t, err)
	require.Equal(t, "body", got)
	require.Equal(t, time.Minute, db.TTL("turnstone:plan:sha256:00"))
	server.FastForward(time.Minute)
	_, ok, err := tier.Get(t.Context(), testHash)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestRedisPlansKeepUntilDropped(t *testing.T) {
	tier := openTier(t, "redis://"+miniredis.RunT(t).Addr(), redisTTL)
	get := func(hash string, want []byte) {
		t.Helper()
		got, ok, err := tier.Get(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, want != nil, ok)
		require.True(t, bytes.Equal(want, got))
	}
	const other = "sha256:01"
	get(testHash, nil)
	require.NoError(t, tier.Drop(t.Context(), testHash))
	for _, body := range [][]byte{[]byte("{\"a\":\"\x00\xff\r\n\"}"), []byte("short"), bytes.Repeat([]byte("0123456789abcdef"), maxStoredPlan/16)} {
		require.NoError(t, tier.Set(t.Context(), testHash, body))
		get(testHash, body)
	}
	get(other, nil)
	require.NoError(t, tier.Set(t.Context(), other, []byte("2")))
	require.NoError(t, tier.Drop(t.Context(), testHash))
	get(testHash, nil)
	get(other, []byte("2"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := tier.Get(ctx, other)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, tier.Set(ctx, other, []byte("1")), context.Canceled)
	require.ErrorIs(t, tier.Drop(ctx, other), context.Canceled)
	get(other, []byte("2"))
}

func TestRedisPlansOfAnotherType(t *testing.T) {
	server := miniredis.RunT(t)
	tier := openTier(t, "redis://"+server.Addr(), redisTTL)
	_, err := server.Lpush("turnstone:plan:"+testHash, "a list")
	require.NoError(t, err)
	body, ok, err := tier.Get(t.Context(), testHash)
	require.NoError(t, err)
	require.True(t, ok, "the plan is stored")
	require.Empty(t, body)
	require.NoError(t, tier.Drop(t.Context(), testHash))
	require.False(t, server.Exists("turnstone:plan:"+testHash))

	require.NoError(t, server.Set("turnstone:plan:"+testHash, string(bytes.Repeat([]byte("x"), 2*maxStoredPlan))))
	body, ok, err = tier.Get(t.Context(), testHash)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, body, maxStoredPlan+1)
}

func TestRedisPlansWithoutServer(t *testing.T) {
	server := miniredis.RunT(t)
	tier := openTier(t, "redis://"+server.Addr(), redisTTL)
	require.NoError(t, tier.Set(t.Context(), testHash, []byte("body")))
	server.Close()
	_, _, err := tier.Get(t.Context(), testHash)
	require.ErrorContains(t, err, "get plan from Redis: ")
	require.ErrorContains(t, tier.Set(t.Context(), testHash, nil), "set plan in Redis: ")
	require.ErrorContains(t, tier.Drop(t.Context(), testHash), "drop plan from Redis: ")
	require.NoError(t, server.Restart())
	require.NoError(t, tier.Set(t.Context(), testHash, []byte("body")))
}

// A server that accepts connections but does not answer is abandoned after the timeout of the tier or the caller, whichever is shorter.
func TestRedisPlansTimeOut(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	for _, tier := range []struct{ timeout, context time.Duration }{{50 * time.Millisecond, time.Hour}, {time.Hour, 50 * time.Millisecond}} {
		r, err := openRedisPlans("redis://"+listener.Addr().String(), redisTTL, tier.timeout)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), tier.context)
		began := time.Now()
		_, _, err = r.Get(ctx, testHash)
		require.Error(t, err)
		require.Less(t, time.Since(began), 5*time.Second)
		cancel()
		require.NoError(t, r.Close())
	}
}

func TestOpenRedisPlansRefuses(t *testing.T) {
	for url, message := range map[string]string{
		"":                           "open Redis: redis: invalid URL scheme: ",
		"http://x":                   "open Redis: redis: invalid URL scheme: http",
		"redis://x/y":                `open Redis: redis: invalid database number: "y"`,
		"redis://me:secret/1@x:6379": "open Redis: malformed URL",
	} {
		_, err := OpenRedisPlans(url)
		require.EqualError(t, err, message)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	for _, url := range []string{"rediss://x:6380", "unix:///run/redis.sock?db=1"} {
		tier, err := OpenRedisPlans(url)
		require.NoError(t, err)
		require.Equal(t, 24*time.Hour, tier.ttl)
		require.NoError(t, tier.Close())
	}
}
