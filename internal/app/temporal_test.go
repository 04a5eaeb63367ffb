package app_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

const temporalTOML = `
[profile.default]
address = "file:1"
namespace = "from-file"
[profile.cloud]
address = "cloud:7233"
namespace = "acct"
api_key = "hunter2"
[profile.cloud.grpc_meta]
team = "a"
[profile.mtls]
address = "mtls:7233"
[profile.mtls.tls]
server_name = "sni"
client_cert_data = "x"
client_key_data = "hunter2"
[profile.theirs]
address = "t:1"
something_of_the_cli = 1
`

func TestTemporalOptions(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // the SDK looks there by itself; nobody's own profile may leak in
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, []byte(temporalTOML), 0o600))

	cases := map[string]struct {
		cfg                app.Temporal
		env                []string
		address, namespace string
		tls, key           bool
	}{
		"nothing":            {address: "127.0.0.1:7233", namespace: "default"},
		"default profile":    {cfg: app.Temporal{ConfigFile: file}, address: "file:1", namespace: "from-file"},
		"file by variable":   {env: []string{"TEMPORAL_CONFIG_FILE=" + file}, address: "file:1", namespace: "from-file"},
		"named profile":      {cfg: app.Temporal{ConfigFile: file, Profile: "cloud"}, address: "cloud:7233", namespace: "acct", tls: true, key: true},
		"variable over file": {cfg: app.Temporal{ConfigFile: file}, env: []string{"TEMPORAL_ADDRESS=env:2"}, address: "env:2", namespace: "from-file"},
		"later entry wins":   {env: []string{"TEMPORAL_ADDRESS=env:1", "TEMPORAL_ADDRESS=env:2"}, address: "env:2", namespace: "default"},
		"ours over both": {
			cfg: app.Temporal{ConfigFile: file, Address: "ours:3", Namespace: "ours"}, env: []string{"TEMPORAL_ADDRESS=env:2"},
			address: "ours:3", namespace: "ours",
		},
		"key by variable":        {env: []string{"TEMPORAL_API_KEY=k"}, address: "127.0.0.1:7233", namespace: "default", tls: true, key: true},
		"unknown keys of theirs": {cfg: app.Temporal{ConfigFile: file, Profile: "theirs"}, address: "t:1", namespace: "default"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			opts, err := app.TemporalOptions(c.cfg, c.env)
			require.NoError(t, err)
			require.Equal(t, c.address, opts.HostPort)
			require.Equal(t, c.namespace, opts.Namespace)
			require.Equal(t, c.tls, opts.ConnectionOptions.TLS != nil)
			require.Equal(t, c.key, opts.Credentials != nil)
		})
	}
	opts, err := app.TemporalOptions(app.Temporal{ConfigFile: file, Profile: "cloud"}, nil)
	require.NoError(t, err)
	headers, err := opts.HeadersProvider.GetHeaders(context.Background())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "a"}, headers)
}

func TestTemporalOptionsRefuses(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, []byte(temporalTOML), 0o600))
	for name, c := range map[string]struct {
		cfg  app.Temporal
		want string
	}{
		"missing file":    {cfg: app.Temporal{ConfigFile: file + "x"}, want: "read temporal.config_file: "},
		"missing profile": {cfg: app.Temporal{ConfigFile: file, Profile: "nope"}, want: `load Temporal profile "nope"`},
		"bad key pair":    {cfg: app.Temporal{ConfigFile: file, Profile: "mtls"}, want: `load Temporal profile "mtls"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := app.TemporalOptions(c.cfg, nil)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), planted)
		})
	}
}

// What turnstone.yaml, variables and flags say about Temporal has the same order as everything else.
func TestTemporalFollowsTheOrder(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	env := []string{"TEMPORAL_ADDRESS=env:2", "TEMPORAL_NAMESPACE=env"}
	src := sources(t, "temporal: {address: 'yaml:1', namespace: yaml, config_file: temporal.toml}", env, "--temporal-address=flag:3")
	require.NoError(t, os.WriteFile(filepath.Join(src.Dir, "temporal.toml"), []byte(temporalTOML), 0o600))
	cfg, err := app.Load(src)
	require.NoError(t, err)
	opts, err := app.TemporalOptions(cfg.Temporal, env)
	require.NoError(t, err)
	require.Equal(t, "flag:3", opts.HostPort)
	require.Equal(t, "env", opts.Namespace)
}
