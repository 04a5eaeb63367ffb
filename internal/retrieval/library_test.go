package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

// embedder is a scripted embedder that remembers the sizes of its batches.
type embedder struct {
	batches []int
	embed   func(ctx context.Context, texts []string) ([][]float32, error) // nil: all texts have the same vector
}

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e.batches = append(e.batches, len(texts))
	if e.embed != nil {
		return e.embed(ctx, texts)
	}
	return slices.Repeat([][]float32{{1, 2}}, len(texts)), nil
}

type fixture struct {
	*retrieval.Library

	store    *memoryStore
	embedder *embedder
	logs     *observer.ObservedLogs
}

func newLibrary(t testing.TB) fixture {
	t.Helper()
	f := fixture{store: newStore(), embedder: &embedder{}}
	core, logs := observer.New(zap.WarnLevel)
	f.logs = logs
	var err error
	f.Library, err = retrieval.New(retrieval.Config{
		Store: f.store, Logger: zap.New(core),
		Embedders: func(_ context.Context, m agent.PlanModel) (agent.Embedder, error) {
			if m.Profile == "missing" {
				return nil, agent.Errorf(agent.CodeNotFound, "", "no such profile")
			}
			return f.embedder, nil
		},
	})
	require.NoError(t, err)
	return f
}

func model() *agent.PlanModel {
	return &agent.PlanModel{Profile: "small", Provider: "fake", Model: "any"}
}

func request(name, body string) retrieval.AddRequest {
	return retrieval.AddRequest{Tenant: "acme", Collection: "handbook", Embedding: model(), Name: name, Body: strings.NewReader(body)}
}

func query(text string) agent.KnowledgeQuery {
	return agent.KnowledgeQuery{Tenant: "acme", Collection: "handbook", Text: text, TopK: 3, Embedding: model()}
}

func passageIDs(passages []agent.Passage) []string {
	ids := make([]string, len(passages))
	for i := range passages {
		ids[i] = fmt.Sprintf("%s/%d", passages[i].DocumentID, passages[i].Position)
	}
	return ids
}

func TestNewValidatesItsConfig(t *testing.T) {
	_, err := retrieval.New(retrieval.Config{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

func TestAddAndSearch(t *testing.T) {
	l := newLibrary(t)
	r := request("guide.md", "# Guide\n\n## Refunds\n\nRefunds are paid within fourteen days.\n\n## Parcels\n\nParcels leave on workdays.")
	r.Source, r.Metadata = "https://example.com/guide", []byte(`{ "lang": "en" }`)
	added, err := l.Add(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, added, 1)
	require.Equal(t, "https://example.com/guide", added[0].ID)
	require.Equal(t, "Guide", added[0].Title)
	require.Equal(t, 2, added[0].Chunks)
	require.True(t, added[0].Changed && added[0].Embedded)

	passages, err := l.Search(t.Context(), query("when are refunds paid?"))
	require.NoError(t, err)
	require.Equal(t, "Guide > Refunds\n\nRefunds are paid within fourteen days.", passages[0].Text)
	require.Equal(t, "https://example.com/guide", passages[0].Source)
	require.JSONEq(t, `{"lang":"en"}`, string(passages[0].Metadata))
	require.Empty(t, l.logs.All())

	d, err := l.store.KnowledgeDocument(t.Context(), "acme", "handbook", added[0].ID)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), d.UpdatedAt, time.Minute)
	require.Equal(t, "text/markdown", d.MIMEType)
}

func TestAddAgain(t *testing.T) {
	l := newLibrary(t)
	add := func(change func(r *retrieval.AddRequest)) bool {
		r := request("a.txt", "The tower has a bell.")
		change(&r)
		added, err := l.Add(t.Context(), r)
		require.NoError(t, err)
		return added[0].Changed
	}
	same := func(*retrieval.AddRequest) {}
	require.True(t, add(same))
	calls := len(l.embedder.batches)
	require.False(t, add(same))
	require.Len(t, l.embedder.batches, calls, "nothing is embedded again")
	require.Equal(t, 1, l.store.puts)
	for name, change := range map[string]func(r *retrieval.AddRequest){
		"content":  func(r *retrieval.AddRequest) { r.Body = strings.NewReader("The tower has a clock.") },
		"size":     func(r *retrieval.AddRequest) { r.Definition.ChunkSize = 500 },
		"overlap":  func(r *retrieval.AddRequest) { r.Definition.Overlap = 10 },
		"profile":  func(r *retrieval.AddRequest) { r.Embedding.Profile = "other" },
		"model":    func(r *retrieval.AddRequest) { r.Embedding.Model = "other" },
		"no model": func(r *retrieval.AddRequest) { r.Embedding = nil },
		"title":    func(r *retrieval.AddRequest) { r.Title = "T" },
		"metadata": func(r *retrieval.AddRequest) { r.Metadata = []byte(`{"a":1}`) },
		"source":   func(r *retrieval.AddRequest) { r.ID, r.Source = "a.txt", "b" },
	} {
		require.True(t, add(change), name)
		require.True(t, add(same), name)
	}
	require.False(t, add(func(r *retrieval.AddRequest) { r.Metadata = []byte(` `) }))
	require.Len(t, l.store.documents, 1)
}

func TestAddEmbedsInBatches(t *testing.T) {
	l := newLibrary(t)
	r := request("a.txt", strings.Repeat("word ", 2_000))
	r.Definition.ChunkSize, r.Definition.Overlap = 50, 1
	added, err := l.Add(t.Context(), r)
	require.NoError(t, err)
	require.Greater(t, added[0].Chunks, 128)
	for i, n := range l.embedder.batches {
		require.True(t, n == 64 || n < 64 && i == len(l.embedder.batches)-1, "%v", l.embedder.batches)
	}

	l = newLibrary(t)
	var lines strings.Builder
	for i := range 130 {
		fmt.Fprintf(&lines, "{\"id\":\"d%03d\",\"text\":\"text %d\"}\n", i, i)
	}
	added, err = l.Add(t.Context(), request("a.jsonl", lines.String()))
	require.NoError(t, err)
	require.Len(t, added, 130)
	require.Equal(t, []int{64, 64, 2}, l.embedder.batches, "small documents share a batch")
}

func TestAddJSONL(t *testing.T) {
	l := newLibrary(t)
	r := request("faq.jsonl", `{"id":"a","text":"One","title":"First","url":"https://example.com/1","lang":"de"}
{"text":"Two"}`)
	r.Title, r.Metadata = "FAQ", []byte(`{"lang":"en","by":"me"}`)
	added, err := l.Add(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "a", added[0].ID)
	require.Equal(t, "faq.jsonl#2", added[1].ID)
	first, err := l.store.KnowledgeDocument(t.Context(), "acme", "handbook", "a")
	require.NoError(t, err)
	require.Equal(t, "First", first.Title)
	require.Equal(t, "https://example.com/1", first.Source)
	require.JSONEq(t, `{"lang":"de","by":"me"}`, string(first.Metadata))
	second, err := l.store.KnowledgeDocument(t.Context(), "acme", "handbook", "faq.jsonl#2")
	require.NoError(t, err)
	require.Equal(t, "FAQ", second.Title)
	require.Equal(t, "faq.jsonl", second.Source)

	for _, broken := range []string{"{\"id\":\"new\",\"text\":\"x\"}\n{", "{\"id\":\"n\",\"text\":\"x\"}\n{\"id\":\"n\",\"text\":\"y\"}", "{\"text\":\"x\"}\n{\"id\":\"a\\nb\",\"text\":\"y\"}"} {
		puts := l.store.puts
		_, err := l.Add(t.Context(), request("b.jsonl", broken))
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.Equal(t, "document_line", e.Field)
		require.ErrorContains(t, err, "line 2: ")
		require.Equal(t, puts, l.store.puts, "nothing of the file is stored")
	}
}

// If the store fails, Add returns what is stored, and the next Add continues after it.
func TestAddContinuesAfterAFailure(t *testing.T) {
	l := newLibrary(t)
	l.store.put = func(d agent.KnowledgeDocument) error {
		if d.ID == "b" {
			return agent.Errorf(agent.CodeUnavailable, "", "gone")
		}
		return nil
	}
	const body = `{"id":"a","text":"One"}` + "\n" + `{"id":"b","text":"Two"}` + "\n" + `{"id":"c","text":"Three"}`
	added, err := l.Add(t.Context(), request("a.jsonl", body))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, `store document "b"`)
	require.Len(t, added, 1)
	l.store.put = nil
	added, err = l.Add(t.Context(), request("a.jsonl", body))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, []bool{added[0].Changed, added[1].Changed, added[2].Changed})
	require.Equal(t, []int{3, 2}, l.embedder.batches)
}

func TestAddWithoutVectors(t *testing.T) {
	l := newLibrary(t)
	l.store.hasVectors = false
	added, err := l.Add(t.Context(), request("a.txt", "Hello"))
	require.NoError(t, err)
	require.False(t, added[0].Embedded)
	require.Empty(t, l.embedder.batches)
	l.store.hasVectors = true
	added, err = l.Add(t.Context(), request("a.txt", "Hello"))
	require.NoError(t, err)
	require.True(t, added[0].Changed && added[0].Embedded, "vectors are added later")
}

func TestAddRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *retrieval.AddRequest)
		field  string
		code   agent.Code
	}{
		"tenant":       {func(r *retrieval.AddRequest) { r.Tenant = "" }, "tenant", agent.CodeInvalid},
		"collection":   {func(r *retrieval.AddRequest) { r.Collection = "" }, "collection", agent.CodeInvalid},
		"control":      {func(r *retrieval.AddRequest) { r.Collection = "a\nb" }, "collection", agent.CodeInvalid},
		"no name":      {func(r *retrieval.AddRequest) { r.Name = "" }, "id", agent.CodeInvalid},
		"long id":      {func(r *retrieval.AddRequest) { r.ID = strings.Repeat("x", 513) }, "id", agent.CodeInvalid},
		"bad id":       {func(r *retrieval.AddRequest) { r.ID = "a\xff" }, "id", agent.CodeInvalid},
		"long source":  {func(r *retrieval.AddRequest) { r.Source = strings.Repeat("x", 2_049) }, "source", agent.CodeInvalid},
		"title":        {func(r *retrieval.AddRequest) { r.Title = "a\x00" }, "title", agent.CodeInvalid},
		"size":         {func(r *retrieval.AddRequest) { r.Definition.ChunkSize = -1 }, "chunk_size", agent.CodeInvalid},
		"large size":   {func(r *retrieval.AddRequest) { r.Definition.ChunkSize = 8_001 }, "chunk_size", agent.CodeInvalid},
		"overlap":      {func(r *retrieval.AddRequest) { r.Definition.Overlap = 1_000 }, "chunk_overlap", agent.CodeInvalid},
		"negative":     {func(r *retrieval.AddRequest) { r.Definition.Overlap = -1 }, "chunk_overlap", agent.CodeInvalid},
		"metadata":     {func(r *retrieval.AddRequest) { r.Metadata = []byte(`[]`) }, "metadata", agent.CodeInvalid},
		"metadata cut": {func(r *retrieval.AddRequest) { r.Metadata = []byte(`{`) }, "metadata", agent.CodeInvalid},
		"no body":      {func(r *retrieval.AddRequest) { r.Body = nil }, "body", agent.CodeInvalid},
		"broken body":  {func(r *retrieval.AddRequest) { r.Body = brokenReader{} }, "body", agent.CodeUnavailable},
		"endless body": {func(r *retrieval.AddRequest) { r.Body = endlessReader{} }, "body", agent.CodeOverflow},
		"type":         {func(r *retrieval.AddRequest) { r.MIMEType = "image/png" }, "mime_type", agent.CodeInvalid},
		"many chunks": {func(r *retrieval.AddRequest) {
			r.Body, r.Definition.ChunkSize = strings.NewReader(strings.Repeat("ab ", 30_000)), 3
		}, "body", agent.CodeOverflow},
		"large overlap": {func(r *retrieval.AddRequest) {
			r.Body, r.Definition.ChunkSize, r.Definition.Overlap = strings.NewReader(strings.Repeat("x", 100_000)), 800, 799
		}, "body", agent.CodeOverflow},
		"no such model": {func(r *retrieval.AddRequest) { r.Embedding.Profile = "missing" }, "", agent.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t)
			r := request("a.txt", "Hello")
			c.change(&r)
			_, err := l.Add(t.Context(), r)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, "%v", err)
			require.Equal(t, c.field, e.Field, "%v", err)
			require.Zero(t, l.store.puts)
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return copy(p, strings.Repeat("x", len(p))), nil }

func TestAddRefusesBadVectors(t *testing.T) {
	nan := float32(math.NaN())
	for name, vectors := range map[string][][]float32{
		"too few": {{1}}, "too many": {{1}, {1}, {1}}, "empty": {{}, {}}, "uneven": {{1, 2}, {1}}, "zero": {{1, 2}, {0, 0}}, "NaN": {{1, 2}, {nan, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t)
			l.embedder.embed = func(context.Context, []string) ([][]float32, error) { return vectors, nil }
			_, err := l.Add(t.Context(), request("a.md", "# A\nx\n# B\ny"))
			require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
			require.Zero(t, l.store.puts)
		})
	}
}

func TestLongSourceMakesAShortID(t *testing.T) {
	l := newLibrary(t)
	r := request("", "Hello")
	r.Source = "https://example.com/" + strings.Repeat("x", 1_000)
	added, err := l.Add(t.Context(), r)
	require.NoError(t, err)
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", added[0].ID)
}
