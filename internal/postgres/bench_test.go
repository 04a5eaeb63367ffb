package postgres_test

import (
	"fmt"
	"testing"

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
			_, err := s.Prompt(b.Context(), agent.PromptQuery{TurnID: agent.TurnID(id), Tenant: tenant, SessionID: "s", Cursor: cursor, Step: step})
			must(err)
			must(s.SaveModelStep(b.Context(), modelStep(id, step, 1, call("c1"))))
		}
		must(s.SaveToolStep(b.Context(), toolStep(id, 1, "c1", 1)))
		s.finish(finish(id, "s"))
	}
}
