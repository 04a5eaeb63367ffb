package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
)

// openStreams opens streams of one key.
func openStreams(t *testing.T, streams int) (store *accesstest.KeyStore, opened []context.Context) {
	t.Helper()
	store = &accesstest.KeyStore{}
	k, err := credentials.NewKeys(credentials.KeysConfig{Store: store})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close(context.WithoutCancel(t.Context())) })
	auth, err := access.New(access.Config{Keys: k})
	require.NoError(t, err)
	key, err := k.CreateKey(t.Context(), agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant, Scopes: []string{"*"}},
		agent.KeyRequest{Name: "x", Tenant: "acme"})
	require.NoError(t, err)
	g := newTestGateway(t)
	g.cfg.Auth = auth
	caller, err := g.identify(t.Context(), identity{}, access.Credentials{Bearer: key.Key}, nil)
	require.NoError(t, err)
	for range streams {
		ctx, leave := g.streamContext(caller.withContext(t.Context()))
		t.Cleanup(leave)
		opened = append(opened, ctx)
	}
	return store, opened
}

// A thousand streams of a key cost one query every three seconds, which is how long the record is cached.
func TestStreamsOfOneCredentialAreCheckedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, opened := openStreams(t, 1000)
		before := store.Lookups()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, store.Lookups()-before, 20)
		require.GreaterOrEqual(t, store.Lookups()-before, 15)
		for _, ctx := range opened {
			require.NoError(t, ctx.Err())
		}
	})
}

// While a key cannot be verified its streams stay open, for thirty seconds.
func TestStreamsWhoseCredentialCannotBeVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, opened := openStreams(t, 2)
		for range 3 {
			store.Fail(errors.New("the database restarts"))
			time.Sleep(25 * time.Second)
			store.Fail(nil)
			time.Sleep(5 * time.Second)
		}
		require.NoError(t, opened[0].Err())
		store.Fail(errors.New("the database is gone"))
		time.Sleep(40 * time.Second)
		for _, ctx := range opened {
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(context.Cause(ctx)))
		}
	})
}
