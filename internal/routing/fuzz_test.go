package routing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/routing"
)

// Any expression, list entry or expected value is either refused with faults of one line, or results in a table that works.
// Both take little time.
func FuzzCheck(f *testing.F) {
	for _, e := range []string{
		`role == "clerk" && percent(session, "x") < 10`, `metadata.tags.exists(t, t == "a")`, `flags.beta == true`, `role.matches("(a|b)*")`,
		`"%s".format([role]) == ""`, `[1].map(a, [a, a]).map(a, [a, a]) == [[1]]`, `role ==`, "\x00", "'\xff'", `duration("1h") > duration("1s")`,
		strings.Repeat("(", 300), strings.Repeat("!", 4000) + "true", strings.Repeat("[1].all(x,", 20), `1 / 0 == 1`, `{"a": 1}.a == 1`, `b"\xff" == b""`,
		`google.protobuf.Struct{} == null`, `metadata.x.y.z`, `type(1) == int`, `timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") > 1`,
	} {
		f.Add(e, "a*", `["x", 1]`)
	}
	f.Add("true", "a*b", `{"a":`)
	f.Add("true", "", `1e999`)
	c, err := routing.New()
	require.NoError(f, err)
	contexts := []agent.RouteContext{request(), {}}
	f.Fuzz(func(t *testing.T, expression, entry, value string) {
		start := time.Now()
		when := agent.RouteWhen{Expression: expression, Role: []string{entry}, Flags: raw(entry, value), Metadata: raw(entry, value)}
		tables := []*agent.RouteTable{table("acme", "all", "", agent.RouteRule{Name: "r", Agent: "a", When: when})}
		tables = append(tables, table("acme", "expression", "", agent.RouteRule{Name: "r", Agent: "a", When: agent.RouteWhen{Expression: expression}}))
		for _, k := range tables {
			found := c.Check(k)
			r, failed := c.Engine([]*agent.RouteTable{k}, nil)
			require.Equal(t, len(found) == 0, failed == nil, "%v", found)
			for _, fault := range found {
				require.True(t, strings.HasPrefix(fault.Path, "rules[0].when"), fault.Path)
				require.NotContains(t, fault.Message, "\n")
			}
			if failed != nil {
				continue
			}
			for _, request := range contexts {
				d, explained := r.Decide(request, nil, false), r.Decide(request, nil, true)
				require.Equal(t, d.Expected, explained.Expected)
				require.Equal(t, d.Agent, explained.Agent)
				require.NotContains(t, explained.Rules[0].Reason, "\n")
			}
		}
		require.Less(t, time.Since(start), 10*time.Second)
	})
}
