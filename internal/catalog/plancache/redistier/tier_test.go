package redistier_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/plancache"
	"github.com/turnstone-run/turnstone/internal/catalog/plancache/plancachetest"
	"github.com/turnstone-run/turnstone/internal/catalog/plancache/redistier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hash = "sha256:00"

func open(t *testing.T, cfg redistier.Config) *redistier.Tier {
	t.Helper()
	tier, err := redistier.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

func TestTier(t *testing.T) {
	plancachetest.Exercise(t, func(t *testing.T) plancache.Shared {
		return open(t, redistier.Config{URL: "redis://" + miniredis.RunT(t).Addr(), Timeout: 10 * time.Second})
	})
}

func TestWhatIsStored(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("me", "secret")
	tier := open(t, redistier.Config{URL: "redis://me:secret@" + server.Addr() + "/3", Timeout: 10 * time.Second, TTL: time.Minute})
	require.NoError(t, tier.Set(t.Context(), hash, []byte("body")))
	db := server.DB(3)
	require.Equal(t, []string{"turnstone:plan:sha256:00"}, db.Keys())
	got, err := db.Get("turnstone:plan:sha256:00")
	require.NoError(t, err)
	require.Equal(t, "body", got)
	require.Equal(t, time.Minute, db.TTL("turnstone:plan:sha256:00"))
	server.FastForward(time.Minute)
	_, ok, err := tier.Get(t.Context(), hash)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestDefaultTTL(t *testing.T) {
	server := miniredis.RunT(t)
	tier := open(t, redistier.Config{URL: "redis://" + server.Addr(), Timeout: 10 * time.Second})
	require.NoError(t, tier.Set(t.Context(), hash, []byte("body")))
	require.Equal(t, 24*time.Hour, server.TTL("turnstone:plan:"+hash))
}

func TestWhatIsNoPlan(t *testing.T) {
	server := miniredis.RunT(t)
	tier := open(t, redistier.Config{URL: "redis://" + server.Addr(), Timeout: 10 * time.Second})
	_, err := server.Lpush("turnstone:plan:"+hash, "a list")
	require.NoError(t, err)
	body, ok, err := tier.Get(t.Context(), hash)
	require.NoError(t, err)
	require.True(t, ok, "there is something to drop")
	require.Empty(t, body)
	require.NoError(t, tier.Drop(t.Context(), hash))
	require.False(t, server.Exists("turnstone:plan:"+hash))

	require.NoError(t, server.Set("turnstone:plan:"+hash, string(bytes.Repeat([]byte("x"), 2*plancache.MaxPlan))))
	body, ok, err = tier.Get(t.Context(), hash)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, body, plancache.MaxPlan+1)
}

func TestWhenRedisIsGone(t *testing.T) {
	server := miniredis.RunT(t)
	tier := open(t, redistier.Config{URL: "redis://" + server.Addr()})
	require.NoError(t, tier.Set(t.Context(), hash, []byte("body")))
	server.Close()
	_, _, err := tier.Get(t.Context(), hash)
	require.ErrorContains(t, err, "get plan from Redis: ")
	require.ErrorContains(t, tier.Set(t.Context(), hash, nil), "set plan in Redis: ")
	require.ErrorContains(t, tier.Drop(t.Context(), hash), "drop plan from Redis: ")
	require.NoError(t, server.Restart())
	require.NoError(t, tier.Set(t.Context(), hash, []byte("body")))
}

// A server that takes connections and says nothing is given up on: after the tier's time, or the caller's when that is shorter.
func TestWhenRedisIsSilent(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	url := "redis://" + listener.Addr().String()

	began := time.Now()
	_, _, err = open(t, redistier.Config{URL: url, Timeout: 50 * time.Millisecond}).Get(t.Context(), hash)
	require.Error(t, err)
	require.Less(t, time.Since(began), 5*time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	_, _, err = open(t, redistier.Config{URL: url, Timeout: time.Hour}).Get(ctx, hash)
	require.Error(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     redistier.Config
		message string
	}{
		"no URL":           {redistier.Config{}, "open Redis: redis: invalid URL scheme: "},
		"another scheme":   {redistier.Config{URL: "http://x"}, "open Redis: redis: invalid URL scheme: http"},
		"no database":      {redistier.Config{URL: "redis://x/y"}, `open Redis: redis: invalid database number: "y"`},
		"a bad password":   {redistier.Config{URL: "redis://me:secret/1@x:6379"}, "open Redis: malformed URL"},
		"negative TTL":     {redistier.Config{URL: "redis://x", TTL: -1}, "open Redis: TTL and Timeout must not be negative"},
		"negative timeout": {redistier.Config{URL: "redis://x", Timeout: -1}, "open Redis: TTL and Timeout must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := redistier.New(c.cfg)
			require.EqualError(t, err, c.message)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
	for _, url := range []string{"rediss://x:6380", "unix:///run/redis.sock?db=1"} {
		open(t, redistier.Config{URL: url})
	}
}
