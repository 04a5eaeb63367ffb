package catalog_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// fill puts agents into the store, spread over 50 tenants, each tenant with a route table of ten rules.
func (w *world) fill(agents int) {
	w.t.Helper()
	const tenants = 50
	for from := 0; from < agents; from += 5000 {
		w.fillAgents(from, min(from+5000, agents), tenants)
	}
	var all strings.Builder
	for i := range min(tenants, agents) {
		fmt.Fprintf(&all, "kind: RouteTable\ntenant: tenant-%02d\nname: main\ndefault_agent: agent-%05d\nrules:\n", i, i)
		for j := range 10 {
			fmt.Fprintf(&all, "  - {name: rule-%d, priority: %d, agent: agent-%05d, when: {role: [role-%d], expression: 'percent(session) < %d'}}\n", j, j, i, j, 10*j)
		}
		all.WriteString("---\n")
	}
	w.applyAll(all.String())
}

func (w *world) fillAgents(from, to, tenants int) {
	w.t.Helper()
	var all strings.Builder
	for i := from; i < to; i++ {
		more := "models: [default]\ntools: [pipeline]\nlabels: {team: a}"
		all.WriteString(agentDoc(fmt.Sprintf("tenant-%02d", i%tenants), fmt.Sprintf("agent-%05d", i), more))
	}
	w.applyAll(all.String())
}

func (w *world) applyAll(text string) {
	w.t.Helper()
	var files []agent.ManifestFile
	for i, part := range chunks(text, 900<<10) {
		files = append(files, agent.ManifestFile{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(part)})
	}
	_, err := w.Apply(w.t.Context(), agent.ApplyRequest{Files: files})
	require.NoError(w.t, err)
}

// chunks cuts a YAML stream between documents.
func chunks(text string, size int) []string {
	var out []string
	for len(text) > size {
		at := strings.LastIndex(text[:size], "---\n")
		out = append(out, text[:at])
		text = text[at+4:]
	}
	return append(out, text)
}

func sizes(b *testing.B, run func(b *testing.B, w *world, agents int)) {
	b.Helper()
	for _, agents := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			w := newWorld(b)
			w.fill(agents)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, w, agents)
		})
	}
}

// BenchmarkColdLoad reads a stored catalog into a new process, without the query, and with it the memory that it takes.
func BenchmarkColdLoad(b *testing.B) {
	sizes(b, func(b *testing.B, w *world, _ int) {
		before := heap()
		kept := w.another()
		size := heap() - before
		runtime.KeepAlive(kept)
		for b.Loop() {
			w.another()
		}
		b.ReportMetric(size/(1<<20), "MiB/registry")
	})
}

// heap is what is in use after everything else is collected, in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one only finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkReloadOne is what a change of one agent costs a process that is told of it.
func BenchmarkReloadOne(b *testing.B) {
	sizes(b, func(b *testing.B, w *world, _ int) {
		other := w.another()
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			_, err := w.try(agentDoc("tenant-00", "agent-00000", fmt.Sprintf("description: change %d\nmodels: [default]", i)))
			require.NoError(b, err)
			b.StartTimer()
			require.NoError(b, other.Start(b.Context()))
		}
	})
}

// BenchmarkChoose routes requests of all tenants, one after the other.
func BenchmarkChoose(b *testing.B) {
	sizes(b, func(b *testing.B, w *world, agents int) {
		contexts := make([]agent.RouteContext, min(50, agents))
		for i := range contexts {
			contexts[i] = agent.RouteContext{
				InvocationContext: agent.InvocationContext{Tenant: fmt.Sprintf("tenant-%02d", i), UserRole: "role-3"}, SessionID: agent.SessionID(fmt.Sprint("s", i)),
			}
		}
		for i := 0; b.Loop(); i++ {
			_, err := w.Choose(b.Context(), contexts[i%len(contexts)])
			require.NoError(b, err)
		}
	})
}

// BenchmarkResolve finds the plan of an agent that is compiled: what every turn does.
func BenchmarkResolve(b *testing.B) {
	sizes(b, func(b *testing.B, w *world, _ int) {
		for b.Loop() {
			_, _, err := w.Resolve(b.Context(), "tenant-03", "agent-00003")
			require.NoError(b, err)
		}
	})
}
