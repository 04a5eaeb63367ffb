package llm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
)

// embeddingServer is a server with the wire formats of OpenAI and Ollama. The vector of a text is its length and its first byte.
type embeddingServer struct {
	url    string
	change func(vectors [][]float64) any // changes the vectors of Ollama; may be nil

	mu       sync.Mutex
	batches  [][]string
	requests []http.Header
	bodies   []map[string]any
}

func newEmbeddingServer(t *testing.T) *embeddingServer {
	t.Helper()
	e := &embeddingServer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model string
			Input []string
		}
		var body map[string]any
		raw, _ := io.ReadAll(r.Body)
		if json.Unmarshal(raw, &body) != nil || json.Unmarshal(raw, &req) != nil {
			t.Errorf("a malformed request: %s", raw)
		}
		e.mu.Lock()
		e.batches, e.requests, e.bodies = append(e.batches, req.Input), append(e.requests, r.Header.Clone()), append(e.bodies, body)
		e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if req.Model == "none" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"model \"none\" not found, try pulling it first"}`)
			return
		}
		vectors := make([][]float64, len(req.Input))
		for i, text := range req.Input {
			vectors[i] = []float64{float64(len(text)), float64(text[0]) / 4}
		}
		switch r.URL.Path {
		case "/v1/embeddings":
			data := make([]map[string]any, len(vectors))
			for i := range vectors { // the order is not specified
				data[len(vectors)-1-i] = map[string]any{"object": "embedding", "index": i, "embedding": vectors[i]}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{
				"object": "list", "data": data, "model": req.Model, "usage": map[string]any{"prompt_tokens": 5, "total_tokens": 5},
			})
		case "/api/embed":
			var out any = vectors
			if e.change != nil {
				out = e.change(vectors)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"model": req.Model, "embeddings": out, "total_duration": 1, "prompt_eval_count": 5})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

func TestEmbedders(t *testing.T) {
	for provider, format := range map[string]string{"openai": "encoding_format", "ollama": "truncate", "offline": "encoding_format", "vllm": "encoding_format"} {
		server := newEmbeddingServer(t)
		m, err := llm.Open(llm.Settings{
			Providers: []llm.Provider{llm.Compatible("vllm", llm.Config{BaseURL: server.url + "/v1"})}, Secrets: environmentSecrets(t, "KEY="+profileKey), Outbound: outbound(t),
		})
		require.NoError(t, err)
		pm := agent.PlanModel{Provider: provider, Model: "embed-1", BaseURL: server.url + "/v1", Auth: bearer("env:KEY")}
		e, err := m.Embedder(t.Context(), pm)
		require.NoError(t, err)
		model, err := m.Model(t.Context(), pm)
		require.NoError(t, err)
		require.NotNil(t, model, "the model of the same profile is a separate client")
		again, err := m.Embedder(t.Context(), pm)
		require.NoError(t, err)
		require.Same(t, e, again, "the client stays open")

		var texts []string
		for i := range 300 {
			texts = append(texts, strings.Repeat(string(rune('a'+i%26)), 1+i))
		}
		vectors, err := e.Embed(t.Context(), texts)
		require.NoError(t, err)
		require.Len(t, vectors, len(texts))
		for i, v := range vectors {
			require.Equal(t, []float32{float32(len(texts[i])), float32(texts[i][0]) / 4}, v, "in the order of the texts")
		}
		require.Len(t, server.batches, 3, "batches by number")
		for i, batch := range server.batches {
			require.LessOrEqual(t, len(batch), 128)
			require.Equal(t, "Bearer "+profileKey, server.requests[i].Get("Authorization"))
			require.Equal(t, "embed-1", server.bodies[i]["model"])
			require.Contains(t, server.bodies[i], format)
		}

		server.batches = nil
		big := strings.Repeat("x", 200<<10)
		_, err = e.Embed(t.Context(), []string{big, big, "small", strings.Repeat(big, 3), "small"})
		require.NoError(t, err)
		require.Len(t, server.batches, 4, "batches by size")

		server.batches = nil
		vectors, err = e.Embed(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, vectors)
		require.Empty(t, server.batches)

		_, err = e.Embed(t.Context(), []string{"a", ""})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		require.ErrorContains(t, err, "texts: "+provider+": text 1 is empty")
		require.Empty(t, server.batches)

		pm.Model = "none"
		e, err = m.Embedder(t.Context(), pm)
		require.NoError(t, err)
		_, err = e.Embed(t.Context(), []string{"a"})
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
		require.EqualError(t, err, "call model: "+provider+": 404 Not Found", "the server of a document is not quoted")
	}
}

func TestEmbedderErrorsOfProfiles(t *testing.T) {
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{llm.Anthropic(llm.Config{APIKey: "k"}), llm.LangChainOpenAI(llm.Config{})}, Outbound: outbound(t)})
	require.NoError(t, err)
	for says, pm := range map[string]agent.PlanModel{
		`provider: model profile "p": provider "anthropic" has no embeddings`:                      {Profile: "p", Provider: "anthropic", Model: "x"},
		`provider: model profile "langchain-openai": provider "langchain-openai" has no embedding`: {Provider: "langchain-openai", Model: "x"},
		`model: model profile "p": is empty`:                                                       {Profile: "p", Provider: "ollama"},
		`unknown model provider "acme"`:                                                            {Provider: "acme", Model: "x"},
		`auth: model profile "p": provider "openai" has no key`:                                    {Profile: "p", Provider: "openai", Model: "x"},
		`base_url: model profile "p": provider "offline" has no address`:                           {Profile: "p", Provider: "offline", Model: "x"},
		`provider "ollama": base_url: want an absolute http or https URL`:                          {Provider: "ollama", Model: "x", BaseURL: "nowhere"},
	} {
		_, err := m.Embedder(t.Context(), pm)
		require.ErrorContains(t, err, says)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), says)
	}
}

// Vectors that do not fit the texts are refused.
func TestInvalidEmbeddings(t *testing.T) {
	for says, change := range map[string]func(v [][]float64) any{
		"1 vectors for 2 texts":        func(v [][]float64) any { return v[:1] },
		"3 vectors for 2 texts":        func(v [][]float64) any { return append(v, v[0]) },
		"a vector is empty":            func(v [][]float64) any { return [][]float64{v[0], {}} },
		"the vectors differ in length": func(v [][]float64) any { return [][]float64{v[0], {1}} },
		"malformed embeddings":         func([][]float64) any { return "no vectors" },
		"0 vectors for 2 texts":        func([][]float64) any { return nil },
	} {
		server := newEmbeddingServer(t)
		server.change = change
		m, err := llm.New(llm.Ollama(llm.Config{BaseURL: server.url + "/v1"}))
		require.NoError(t, err)
		e, err := m.Embedder(t.Context(), agent.PlanModel{Provider: "ollama", Model: "x"})
		require.NoError(t, err)
		vectors, err := e.Embed(t.Context(), []string{"a", "b"})
		require.ErrorContains(t, err, says)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		require.Nil(t, vectors)
	}
}

// Errors are the same as for messages, and requests are not repeated.
func TestEmbedderErrors(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "ollama"} {
		requests := make(chan struct{}, 16)
		answer := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error":{"message":"Slow down."}}`, http.StatusTooManyRequests)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that its client left
			requests <- struct{}{}
			answer(w, r)
		}))
		t.Cleanup(srv.Close)
		m, err := llm.Open(llm.Settings{Outbound: outbound(t)})
		require.NoError(t, err)
		embed := func(timeout time.Duration) error {
			e, err := m.Embedder(t.Context(), agent.PlanModel{Provider: provider, Model: "x", BaseURL: srv.URL + "/v1", TimeoutSec: int(timeout.Seconds())})
			require.NoError(t, err)
			_, err = e.Embed(t.Context(), []string{"a"})
			return err
		}
		var limited *agent.Error
		require.ErrorAs(t, embed(0), &limited)
		require.Equal(t, agent.CodeRateLimited, limited.Code)
		require.Equal(t, 7*time.Second, limited.RetryAfter)
		require.Len(t, requests, 1)

		answer = func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"the input length exceeds the context length"}`, http.StatusBadRequest)
		}
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(embed(0)))

		answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		err = embed(time.Second)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		require.ErrorContains(t, err, "not a byte for 1s")
	}
}
