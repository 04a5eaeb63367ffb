package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/devstack"
)

func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		args, env []string
		want      int // port of Temporal
		fault     string
	}{
		"preferred":              {nil, nil, 7233, ""},
		"variable":               {nil, []string{"TURNSTONE_DEV_TEMPORAL_PORT=7300"}, 7300, ""},
		"flag before a variable": {[]string{"--temporal-port", "0"}, []string{"TURNSTONE_DEV_TEMPORAL_PORT=7300"}, 0, ""},
		"no number":              {nil, []string{"TURNSTONE_DEV_TEMPORAL_PORT=x"}, 0, `TURNSTONE_DEV_TEMPORAL_PORT: "x" is no number`},
		"no port":                {[]string{"--ui-port", "70000"}, nil, 0, "--ui-port: 70000 is no port: want 0 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			var p ports
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			p.register(flags)
			require.NoError(t, flags.Parse(c.args))
			err := p.load(flags, c.env)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, p.temporal)
		})
	}
	require.Equal(t, []string{"A=1"}, withoutPorts([]string{"TURNSTONE_DEV_UI_PORT=1", "A=1"}))
}

func TestPortInUseNamesItsFlag(t *testing.T) {
	d := &dev{ports: ports{temporal: 7233, flights: 8234}}
	busy := errors.Join(&devstack.PortInUseError{Purpose: "Temporal", Port: 7233}, &devstack.PortInUseError{Purpose: "the sample API", Port: 8234})
	err := d.explainPort(busy)
	require.ErrorIs(t, err, devstack.ErrPortInUse)
	require.ErrorContains(t, err, "--temporal-port PORT (TURNSTONE_DEV_TEMPORAL_PORT), --flights-port PORT (TURNSTONE_DEV_FLIGHTS_PORT)")
	other := errors.New("no disk")
	require.Equal(t, other, d.explainPort(other))

	inst := &instance{settings: &turnstone.Settings{}}
	inst.settings.Gateway.Enabled, inst.settings.HTTP.Addr, inst.settings.GRPC.Addr = true, taken(t), "127.0.0.1:0"
	require.ErrorContains(t, inst.holdGatewayAddresses(t.Context(), false), "--http-addr HOST:PORT (TURNSTONE_HTTP_ADDR)")
}

func TestEnvironmentIsReadByAShell(t *testing.T) {
	w := &userWorker{}
	w.add("DATABASE_URL", "postgres://u@/own?host=%2Ftmp&port=5432")
	w.add("TURNSTONE_LLM_BASE_URL", "")
	w.add("TURNSTONE_HTTP_ADDR", "127.0.0.1:8081")
	var out strings.Builder
	w.print(&out, "go run ./examples/customtool")
	require.Contains(t, out.String(), "  export \\\n    DATABASE_URL='postgres://u@/own?host=%2Ftmp&port=5432' \\\n    TURNSTONE_HTTP_ADDR=127.0.0.1:8081\n"+
		"  go run ./examples/customtool\n\nAsk it with --server http://127.0.0.1:8081.\n")
	require.Equal(t, `'it'\''s'`, shellQuote("it's"))
	require.Equal(t, "127.0.0.1:8081", nextPort("127.0.0.1:8080"))
}
