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

func TestReplacedSecretOpensAnotherClient(t *testing.T) {
	server := newUpstream(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	secrets, err := secret.New(secret.Config{Folders: []string{"acme=" + dir}})
	require.NoError(t, err)
	var opens atomic.Int64
	p := llm.Ollama(llm.Config{})
	open := p.Open
	p.Open = func(cfg llm.Config) (agent.Model, error) {
		opens.Add(1)
		return open(cfg)
	}
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Secrets: secrets, Outbound: outbound(t)})
	require.NoError(t, err)
	opens.Store(0)
	pm := agent.PlanModel{Provider: "ollama", BaseURL: server.url, Auth: bearer("file:" + path)}
	for i, key := range []string{"first", "other", "first"} {
		require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
		for range 3 {
			require.NoError(t, generate(t.Context(), m, pm))
		}
		require.Equal(t, []string{"Bearer " + key, "Bearer " + key, "Bearer " + key}, server.keys())
		require.EqualValues(t, i+1, opens.Load())
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(generate(t.Context(), m, pm)))
	require.Empty(t, server.keys(), "a key that was taken away is not sent again")
}

// Profiles of one address that differ in their key are open side by side.
func TestProfilesDoNotDisplaceEachOther(t *testing.T) {
	var opens atomic.Int64
	p := llm.OpenAI(llm.Config{APIKey: configuredKey, BaseURL: local})
	p.Open = func(llm.Config) (agent.Model, error) {
		opens.Add(1)
		return nothing{}, nil
	}
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Secrets: environment(t, "A=a", "B=b"), Outbound: outbound(t)})
	require.NoError(t, err)
	header := bearer("env:A")
	header.Type, header.Header = agent.AuthAPIKey, "Api-Key"
	for range 3 {
		for _, pm := range []agent.PlanModel{
			{Provider: "openai"},
			{Provider: "openai", BaseURL: local},
			{Provider: "openai", Auth: bearer("env:A")},
			{Provider: "openai", Auth: bearer("env:B")},
			{Provider: "openai", BaseURL: local, Auth: bearer("env:A")}, // another way out than with the configured address
			{Provider: "openai", Auth: header},
		} {
			_, err := m.Model(t.Context(), pm)
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 6, opens.Load())
}

// turning answers with another secret every few calls.
type turning struct{ calls atomic.Int64 }

func (s *turning) Reveal(_ context.Context, _, ref string) (string, error) {
	return fmt.Sprintf("%s-%d", ref, s.calls.Add(1)/5), nil
}

func TestConcurrentProfilesKeepTheirKeys(t *testing.T) {
	servers := []*upstream{newUpstream(t), newUpstream(t), newUpstream(t)}
	m, err := llm.Open(llm.Settings{Secrets: &turning{}, Outbound: outbound(t)})
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
		got := server.keys()
		require.Len(t, got, 20)
		for _, key := range got {
			require.True(t, strings.HasPrefix(key, fmt.Sprintf("Bearer key%d-", s)), key)
		}
	}
}

// A bounded number of clients is kept; one that had to go is opened again.
func TestOpenClientsAreBounded(t *testing.T) {
	var opens atomic.Int64
	p := llm.Ollama(llm.Config{})
	p.Open = func(llm.Config) (agent.Model, error) {
		opens.Add(1)
		return nothing{}, nil
	}
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{p}, Outbound: outbound(t)})
	require.NoError(t, err)
	at := func(i int) {
		_, err := m.Model(t.Context(), agent.PlanModel{Provider: "ollama", BaseURL: fmt.Sprintf("http://h%d.test", i)})
		require.NoError(t, err)
	}
	for i := range 256 {
		at(i)
	}
	require.EqualValues(t, 257, opens.Load())
	at(1)
	require.EqualValues(t, 257, opens.Load(), "kept")
	at(256)
	at(0)
	require.EqualValues(t, 259, opens.Load(), "the one that was used longest ago had gone")
}

type nothing struct{}

func (nothing) Generate(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
	return agent.ModelReply{}, errors.New("nothing")
}
