// Package egresstest is the test suite for tools that fetch URLs for a model. It checks that a tool reaches no server that is not public, and that each
// response costs a bounded time and size. The tool is run with the real client of package egress. So a tool that does not use the client, or resolves,
// redirects or reads by itself, fails.
//
// The world of the suite has two servers on one port. The front listens on an address that the client's configuration allows, and stands for the public
// internet. The canary listens on 127.0.0.1 and counts connections, of which there must be none. A DNS server answers every name with the canary's
// address, except the names of its zone.
package egresstest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
)

// Harness connects the suite to a tool.
type Harness struct {
	// Fetch makes the tool fetch a URL with a client and use the response. It returns a failure of the tool as an [agent.Error].
	Fetch func(ctx context.Context, client *egress.Client, url string) error
	// Config is the client's configuration. The suite changes some of its fields.
	Config egress.Config
	// Good and GoodType are a body that the tool accepts, and its media type. Empty: a JSON array of one object.
	Good, GoodType string
	// IgnoresBody is true for a tool that does not read responses. Then a costly body need not be an error.
	IgnoresBody bool
}

const (
	costlyTimeout = time.Second      // of the client for costly responses
	plainTimeout  = 20 * time.Second // of the client for other responses; long, because the machine may be busy
	clientBytes   = 64 << 10
	fetchLimit    = 30 * time.Second // maximum time of any fetch
)

// Exercise runs the suite.
func Exercise(t *testing.T, h Harness) {
	t.Helper()
	x := &exercise{Harness: h, world: NewWorld(t, h.Good, h.GoodType)}
	client := x.world.Client(t, h.Config, plainTimeout)
	control := func(t *testing.T) {
		t.Helper()
		require.NoError(t, x.fetch(t, client, x.world.front("/good")), "the tool does not accept the good body, so the suite proves nothing")
	}
	control(t)
	var costly []Attack
	for _, a := range x.world.Attacks() {
		if a.Costly {
			costly = append(costly, a)
			continue
		}
		t.Run(a.Name, func(t *testing.T) { x.attack(t, client, a) })
	}
	t.Run("rebinding", func(t *testing.T) { x.rebind(t, client) })
	t.Run("costs", func(t *testing.T) {
		for _, a := range costly {
			t.Run(a.Name, func(t *testing.T) {
				t.Parallel() // these tests mostly wait
				x.attack(t, x.world.Client(t, h.Config, costlyTimeout), a)
			})
		}
	})
	control(t)
}

// exercise is a run of the suite.
type exercise struct {
	Harness

	world *World
}

func (x *exercise) fetch(t *testing.T, client *egress.Client, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit/2)
	defer cancel()
	start := time.Now()
	err := x.Fetch(ctx, client, url)
	require.Less(t, time.Since(start), fetchLimit, "the fetch has no time limit")
	require.Zero(t, x.world.Reached(), "the private server was reached")
	return err
}

func (x *exercise) attack(t *testing.T, client *egress.Client, a Attack) {
	t.Helper()
	err := x.fetch(t, client, a.URL)
	if a.Costly && x.IgnoresBody && err == nil {
		return
	}
	require.Error(t, err)
	require.True(t, slices.Contains(a.Codes, agent.CodeOf(err)), "%s: %v; want one of %v", agent.CodeOf(err), err, a.Codes)
	require.NotEmpty(t, err.Error())
	require.Less(t, len(err.Error()), 4096, "an error must not repeat the response")
	require.NotContains(t, err.Error(), "mail.example", "an error must not repeat the greeting of another protocol")
}

// rebind fetches a name that resolves to the front and the canary alternately. A client that resolves once for its check and once to connect would reach
// the canary.
func (x *exercise) rebind(t *testing.T, client *egress.Client) {
	t.Helper()
	var last error
	for range 4 {
		client.CloseIdleConnections()
		if err := x.fetch(t, client, "http://rebind.attack.example:"+x.world.port+"/good"); err != nil {
			last = err
		}
	}
	require.True(t, slices.Contains(refused(), agent.CodeOf(last)), "%v", last)
}
