package catalog_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const patience = 20 * time.Second

// appliedFolder implements Apply: it keeps the last state, and fails as refuse decides.
type appliedFolder struct {
	mu     sync.Mutex
	state  map[string]string
	refuse error
}

func (a *appliedFolder) apply(_ context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		return agent.ApplyResult{}, a.refuse
	}
	a.state = map[string]string{}
	for _, f := range files {
		a.state[f.Name] = string(f.Data)
	}
	return agent.ApplyResult{}, nil
}

func (a *appliedFolder) setRefuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = err
}

func (a *appliedFolder) holds(want map[string]string) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.state != nil && maps.Equal(a.state, want)
	}
}

// A follower applies the stored documents of a gateway but not its shipped ones, and receives changes by the stream or by polling.
// If a state is refused, or the gateway is unavailable, the applied state remains.
func TestFollower(t *testing.T) {
	key := func(name string) agent.DocumentKey {
		return agent.DocumentKey{Kind: agent.KindAgent, Tenant: "default", Name: name}
	}
	document := func(name string, revision int64) agent.Document {
		return agent.Document{DocumentKey: key(name), Body: []byte(`{"name":"` + name + `"}`), Revision: revision, Source: agent.SourceAPI}
	}
	for name, poll := range map[string]time.Duration{"by the stream": time.Hour, "by the poll": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			remote := &gatewaytest.Catalog{DocumentList: []agent.Document{document("a", 1), document("shipped", 0)}}
			g, err := gateway.New(gateway.Config{HTTPAddr: "127.0.0.1:0", Ports: gatewaytest.Ports(gatewaytest.New(), remote), Version: "test"})
			require.NoError(t, err)
			require.NoError(t, g.Start(t.Context()))
			url := "http://" + g.HTTPAddr()
			c, err := client.New(client.Config{Server: url, Patience: time.Millisecond})
			require.NoError(t, err)
			var local appliedFolder
			s := catalog.NewFollower(catalog.FollowerConfig{Catalog: c, URL: url, Apply: local.apply, Poll: poll, Logger: zaptest.NewLogger(t)})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); s.Run(ctx) }()
			t.Cleanup(func() { stop(); <-done })

			state := map[string]string{key("a").String(): `{"name":"a"}`}
			require.Eventually(t, local.holds(state), patience, time.Millisecond)
			change := func(name string) {
				_, err := remote.Apply(ctx, agent.ApplyRequest{Files: []agent.ManifestFile{{Data: []byte("kind: AgentInstance\nname: " + name + "\n")}}})
				require.NoError(t, err)
				page, err := remote.Documents(ctx, agent.DocumentQuery{Name: name})
				require.NoError(t, err)
				state[page.Documents[0].String()] = string(page.Documents[0].Body)
			}
			change("b")
			require.Eventually(t, local.holds(state), patience, time.Millisecond)
			require.Eventually(t, func() bool { return s.Status().OK }, patience, time.Millisecond)

			before := maps.Clone(state)
			local.setRefuse(agent.Faults{{Document: "b", Message: "no such tool"}}.Err())
			change("c")
			require.Eventually(t, func() bool { f := s.Status(); return !f.OK && len(f.Faults) == 1 }, patience, time.Millisecond)
			require.True(t, local.holds(before)(), "the applied documents remain")
			local.setRefuse(nil)
			change("d")
			require.Eventually(t, local.holds(state), patience, time.Millisecond)

			shutting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			require.NoError(t, g.Shutdown(shutting))
			if poll < time.Hour {
				require.Eventually(t, func() bool { return !s.Status().OK }, patience, time.Millisecond)
			}
			require.True(t, local.holds(state)(), "an unavailable gateway changes nothing")
		})
	}
}
