package gateway_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestDoctor(t *testing.T) {
	d := startGateway(t, nil)
	var asked []string
	d.rt.Examine = func(_ context.Context, name, profile string, report func(gateway.DoctorCheck)) error {
		asked = append(asked, name+"/"+profile)
		report(gateway.DoctorCheck{Name: "connects", OK: true, TookMS: 1.5})
		report(gateway.DoctorCheck{Name: "calls a tool", Rule: "native-execution", Detail: "answered with text"})
		return nil
	}
	a := d.send("POST", "/v1/doctor", `{"agent":"analyst","model":"fast"}`)
	require.Equal(t, 200, a.status)
	require.Equal(t, "text/event-stream", a.header.Get("Content-Type"))
	require.Equal(t, "retry: 1000\n\n"+
		"event: check\ndata: {\"name\":\"connects\",\"ok\":true,\"took_ms\":1.5}\n\n"+
		"event: check\ndata: {\"name\":\"calls a tool\",\"rule\":\"native-execution\",\"ok\":false,\"detail\":\"answered with text\",\"took_ms\":0}\n\n"+
		"event: end\ndata: {\"ok\":false,\"checks\":2,\"failed\":1}\n\n", string(a.body))
	require.Equal(t, 200, d.send("POST", "/v1/doctor", "").status)
	require.Equal(t, []string{"analyst/fast", "/"}, asked)
	for body, field := range map[string]string{`{"agent":"a b"}`: "agent", `{"model":"a/b"}`: "model", `{"profile":"x"}`: "profile"} {
		require.Equal(t, field, d.send("POST", "/v1/doctor", body).failure(t).Field)
	}
	require.Equal(t, "model", d.send("POST", "/v1/doctor?model=fast", "").failure(t).Field)
	require.Len(t, asked, 2)
}

func TestDoctorFails(t *testing.T) {
	d := startGateway(t, nil)
	before := 0
	d.rt.Examine = func(_ context.Context, _, _ string, report func(gateway.DoctorCheck)) error {
		for range before {
			report(gateway.DoctorCheck{Name: "connects", OK: true})
		}
		return &agent.Error{Code: agent.CodeNotFound, Field: "model", Err: errors.New(`no model "x"`)}
	}
	a := d.send("POST", "/v1/doctor", "")
	require.Equal(t, 404, a.status, "refused before the first check is an HTTP status")
	require.Equal(t, "model", a.failure(t).Field)
	before = 1
	a = d.send("POST", "/v1/doctor", "")
	require.Equal(t, 200, a.status)
	require.Contains(t, string(a.body), "event: error\n")
	require.NotContains(t, string(a.body), "event: end\n")
}

func TestDoctorIsBoundedAndLeavesWithItsClient(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.LongTimeout = 50 * time.Millisecond })
	left := make(chan error, 1)
	d.rt.Examine = func(ctx context.Context, _, _ string, report func(gateway.DoctorCheck)) error {
		report(gateway.DoctorCheck{Name: "connects", OK: true})
		<-ctx.Done()
		report(gateway.DoctorCheck{Name: "is late"})
		left <- ctx.Err()
		return ctx.Err()
	}
	a := d.send("POST", "/v1/doctor", "")
	require.Contains(t, string(a.body), `"type":"unavailable"`)
	require.ErrorIs(t, <-left, context.DeadlineExceeded)

	d = startGateway(t, nil)
	d.rt.Examine = func(ctx context.Context, _, _ string, report func(gateway.DoctorCheck)) error {
		report(gateway.DoctorCheck{Name: "connects", OK: true})
		<-ctx.Done()
		for range 1000 { // must not block
			report(gateway.DoctorCheck{Name: "is late"})
		}
		left <- ctx.Err()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	resp := d.do(ctx, "POST", "/v1/doctor", strings.NewReader(""))
	next := gatewaytest.Frames(t, resp.Body)
	for range 2 {
		next()
	}
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	_, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err)
}
