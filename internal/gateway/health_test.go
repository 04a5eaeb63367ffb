package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// fixedHealth has a Health that a test sets.
type fixedHealth struct {
	*gatewaytest.Runtime

	health gateway.Health
}

func (p *fixedHealth) Health(context.Context) gateway.Health { return p.health }

func TestHealth(t *testing.T) {
	since := time.Date(2026, 11, 3, 4, 5, 6, 789, time.UTC)
	rt := &fixedHealth{Runtime: gatewaytest.New()}
	d := startGateway(t, func(c *gateway.Config) {
		c.Health = rt
		c.Auth = gatewaytest.Credentials{"ops": gatewaytest.Caller(agent.AnyTenant, "ops", "health.read")}
	})
	well := gateway.Dependency{Name: "postgres", OK: true, State: gateway.HealthOK, Detail: "1 of 10", Since: since, Took: 1500 * time.Microsecond}
	slow := gateway.Dependency{Name: "redis", State: gateway.HealthDegraded, Detail: "dial redis:6379", Hint: "start it"}
	dead := gateway.Dependency{Name: "worker", State: gateway.HealthDown, Detail: "nobody", Hint: "start one"}
	const wellText = `{"name":"postgres","ok":true,"state":"ok","detail":"1 of 10","since":"2026-11-03T04:05:06Z","took_ms":1.5}`
	for name, c := range map[string]struct {
		health       gateway.Health
		code         int
		full, public string
	}{
		"well": {
			gateway.Health{OK: true, Workers: 4, Dependencies: []gateway.Dependency{well}},
			200,
			`{"status":"ok","version":"test","workers":4,"dependencies":[` + wellText + `]}`,
			`{"status":"ok","workers":4,"dependencies":[{"name":"postgres","ok":true,"state":"ok","took_ms":0}]}`,
		},
		"degraded": {
			gateway.Health{OK: true, Dependencies: []gateway.Dependency{well, slow}},
			200,
			`{"status":"degraded","version":"test","workers":0,"dependencies":[` + wellText + `,{"name":"redis","ok":false,"state":"degraded","detail":"dial redis:6379","hint":"start it","took_ms":0}]}`,
			`{"status":"degraded","workers":0,"dependencies":[{"name":"postgres","ok":true,"state":"ok","took_ms":0},{"name":"redis","ok":false,"state":"degraded","hint":"start it","took_ms":0}]}`,
		},
		"failing": {
			gateway.Health{Dependencies: []gateway.Dependency{dead}},
			503,
			`{"status":"failing","version":"test","workers":0,"dependencies":[{"name":"worker","ok":false,"state":"down","detail":"nobody","hint":"start one","took_ms":0}]}`,
			`{"status":"failing","workers":0,"dependencies":[{"name":"worker","ok":false,"state":"down","hint":"start one","took_ms":0}]}`,
		},
		"of a runtime that knows good and bad": {
			gateway.Health{OK: true, Dependencies: []gateway.Dependency{{Name: "catalog"}}},
			200,
			`{"status":"degraded","version":"test","workers":0,"dependencies":[{"name":"catalog","ok":false,"state":"degraded","took_ms":0}]}`,
			`{"status":"degraded","workers":0,"dependencies":[{"name":"catalog","ok":false,"state":"degraded","took_ms":0}]}`,
		},
	} {
		rt.health = c.health
		a := d.send("GET", "/health", "", bearer("ops")...)
		require.Equal(t, c.code, a.status, name)
		require.JSONEq(t, c.full, string(a.body), name)
		a = d.send("GET", "/health", "")
		require.Equal(t, c.code, a.status, name)
		require.JSONEq(t, c.public, string(a.body), name)
	}
}
