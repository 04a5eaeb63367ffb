package routing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// benchTable has rules that people would write, none of which matches request() but the one at hit; -1: none does.
func benchTable(n, hit int, cel bool) *agent.RouteTable {
	rules := make([]agent.RouteRule, n)
	for i := range rules {
		when := agent.RouteWhen{Role: []string{fmt.Sprint("role-", i), "ops*"}, Page: []string{"/orders*"}}
		switch {
		case i == hit:
			when.Role = []string{"clerk"}
		case cel:
			when.Role, when.Expression = nil, fmt.Sprintf(`metadata.plan == "plan-%d" && percent(session) < 50`, i%100)
		case i%3 == 1:
			when.Role, when.Flags = nil, raw("beta", "false")
		case i%3 == 2:
			when.Role, when.Metadata = nil, raw("org.region", `["us", "asia"]`)
		}
		rules[i] = agent.RouteRule{Name: fmt.Sprint(i), Agent: "a", When: when}
	}
	return table("acme", "main", "d", rules...)
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 10_000} {
		for _, kind := range []struct {
			name         string
			hit          int
			cel, explain bool
		}{{"first", 0, false, false}, {"last", n - 1, false, false}, {"none", -1, false, false}, {"last,cel", n - 1, true, false}, {"last,explain", n - 1, false, true}} {
			b.Run(fmt.Sprintf("rules=%d,%s", n, kind.name), func(b *testing.B) {
				r := engine(b, []*agent.RouteTable{benchTable(n, kind.hit, kind.cel)}, nil)
				c := request()
				c.Agent = ""
				d := r.Decide(c, nil, kind.explain)
				require.Equal(b, kind.hit >= 0, d.Reason == agent.RouteRuled)
				b.ReportAllocs()
				for b.Loop() {
					r.Decide(c, nil, kind.explain)
				}
			})
		}
	}
}
