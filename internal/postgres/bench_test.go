package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// BenchmarkTurn is what the store costs a turn with one tool call: begin, two model steps, two prompts, a tool step, finish.
func BenchmarkTurn(b *testing.B) {
	s := newBench(b, postgres.Config{})
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		n++
		id := fmt.Sprintf("t%d", n)
		cursor := s.ready(id, "s").Cursor
		for step := 1; step <= 2; step++ {
			_, _, err := s.Prompt(b.Context(), agent.PromptQuery{TurnID: agent.TurnID(id), Tenant: tenant, SessionID: "s", Cursor: cursor, Step: step})
			must(err)
			must(s.SaveModelStep(b.Context(), modelStep(id, step, 1, call("c1"))))
		}
		must(s.SaveToolStep(b.Context(), toolStep(id, 1, "c1", 1)))
		s.finish(finish(id, "s"))
	}
}

// fill commits a catalog of as many agents of 1 KB.
func (b *bench) fill(documents int) {
	b.t.Helper()
	c := agent.CatalogCommit{At: 0, By: "bench", Source: agent.SourceAPI}
	body := `{"description":"` + strings.Repeat("words ", 160) + `"}`
	for i := range documents {
		c.Put = append(c.Put, put(agentKey(fmt.Sprintf("a%05d", i)), body))
	}
	_, err := b.CommitCatalog(b.t.Context(), c)
	require.NoError(b.t, err)
}

// BenchmarkCommitCatalog changes one document of ten thousand.
func BenchmarkCommitCatalog(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.fill(10_000)
	at := int64(1)
	var err error
	for b.Loop() {
		c := agent.CatalogCommit{At: at, Put: []agent.Document{put(agentKey(fmt.Sprintf("a%05d", at%10_000)), `{"description":"changed"}`)}}
		if at, err = s.CommitCatalog(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadCatalog(b *testing.B) {
	for _, documents := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(documents), func(b *testing.B) {
			s := newBench(b, postgres.Config{})
			s.fill(documents)
			for b.Loop() {
				s.load()
			}
		})
	}
}

// BenchmarkCatalogSince asks for the changes of a catalog of ten thousand documents when there are none, and when one changed.
func BenchmarkCatalogSince(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.fill(10_000)
	s.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("a00007"), `1`)}})
	for after, name := range map[int64]string{2: "nothing", 1: "one"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.since(after)
			}
		})
	}
}
