package llm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/secret"
)

func TestReplacedSecretIsUsed(t *testing.T) {
	server := newUpstream(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	secrets, err := secret.New(secret.Config{Folders: []string{"acme=" + dir}})
	require.NoError(t, err)
	p, opens := countOpens(llm.Ollama(llm.Config{}))
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Secrets: secrets, Outbound: outbound(t)})
	require.NoError(t, err)
	opens.Store(0)
	pm := agent.PlanModel{Provider: "ollama", BaseURL: server.url, Auth: bearer("file:" + path)}
	for i, key := range []string{"first", "other", "first"} {
		require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
		for range 3 {
			require.NoError(t, generate(t.Context(), m, pm))
		}
		require.Equal(t, []string{"Bearer " + key, "Bearer " + key, "Bearer " + key}, server.takeKeys())
		require.EqualValues(t, i+1, opens.Load())
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(generate(t.Context(), m, pm)))
	require.Empty(t, server.takeKeys(), "a deleted key is not sent again")
}

// Profiles that differ in the key have separate clients, also at the same address.
func TestProfilesHaveSeparateClients(t *testing.T) {
	p, opens := countOpens(llm.OpenAI(llm.Config{APIKey: configuredKey, BaseURL: local}))
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Secrets: environmentSecrets(t, "A=a", "B=b"), Outbound: outbound(t)})
	require.NoError(t, err)
	header := bearer("env:A")
	header.Type, header.Header = agent.AuthAPIKey, "Api-Key"
	for range 3 {
		for _, pm := range []agent.PlanModel{
			{Provider: "openai"},
			{Provider: "openai", BaseURL: local},
			{Provider: "openai", Auth: bearer("env:A")},
			{Provider: "openai", Auth: bearer("env:B")},
			{Provider: "openai", BaseURL: local, Auth: bearer("env:A")}, // sent by Outbound, unlike with the configured address
			{Provider: "openai", Auth: header},
		} {
			_, err := m.Model(t.Context(), pm)
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 6, opens.Load())
}

// rotatingSecrets returns another secret every five calls.
type rotatingSecrets struct{ calls atomic.Int64 }

func (s *rotatingSecrets) Reveal(_ context.Context, _, ref string) (string, error) {
	return fmt.Sprintf("%s-%d", ref, s.calls.Add(1)/5), nil
}

func TestConcurrentProfilesKeepTheirKeys(t *testing.T) {
	servers := []*upstream{newUpstream(t), newUpstream(t), newUpstream(t)}
	m, err := llm.Open(llm.Settings{Secrets: &rotatingSecrets{}, Outbound: outbound(t)})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			s := i % len(servers)
			pm := agent.PlanModel{Provider: "openai", BaseURL: servers[s].url, Auth: bearer(fmt.Sprint("key", s)), TimeoutSec: 30 + i%2}
			if err := generate(t.Context(), m, pm); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for s, server := range servers {
		got := server.takeKeys()
		require.Len(t, got, 20)
		for _, key := range got {
			require.True(t, strings.HasPrefix(key, fmt.Sprintf("Bearer key%d-", s)), key)
		}
	}
}

// The number of open clients is bounded. A closed client is opened again.
func TestOpenClientsAreBounded(t *testing.T) {
	p, opens := countOpens(llm.Ollama(llm.Config{}))
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Outbound: outbound(t)})
	require.NoError(t, err)
	open := func(i int) {
		_, err := m.Model(t.Context(), agent.PlanModel{Provider: "ollama", BaseURL: fmt.Sprintf("http://h%d.test", i)})
		require.NoError(t, err)
	}
	for i := range 256 {
		open(i)
	}
	require.EqualValues(t, 257, opens.Load())
	open(1)
	require.EqualValues(t, 257, opens.Load(), "kept")
	open(256)
	open(0)
	require.EqualValues(t, 259, opens.Load(), "the least recently used client was closed")
}

// countOpens returns a provider that counts its opened clients.
func countOpens(p llm.Provider) (llm.Provider, *atomic.Int64) {
	var opens atomic.Int64
	open := p.Open
	p.Open = func(cfg llm.Config) (agent.Model, error) {
		opens.Add(1)
		return open(cfg)
	}
	return p, &opens
}

type failingModel struct{}

func (failingModel) Generate(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
	return agent.ModelReply{}, errors.New("always fails")
}
