package cluster

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

const (
	defaultAddress   = "127.0.0.1:7233"
	defaultNamespace = "default"
)

// Connection has the settings that override profile and environment, unless they are empty.
type Connection struct {
	Address    string // host:port
	Namespace  string
	Profile    string // a section of temporal.toml
	ConfigFile string // path of temporal.toml
}

// Options returns the options to connect to Temporal: from a profile of temporal.toml, TEMPORAL_* variables (API key, mTLS, headers; env is as in
// os.Environ), and cfg, which overrides both. So profiles, keys and certificates of the CLI work here. The caller adds logger, metrics and
// interceptors. Errors name the file, profile or key pair and hold no secret.
//
// If cfg.ConfigFile and TEMPORAL_CONFIG_FILE are empty, the SDK uses the user's configuration folder.
func Options(cfg Connection, env []string) (client.Options, error) {
	if cfg.ConfigFile != "" { // the SDK ignores a missing file, even one that was named
		if _, err := os.Stat(cfg.ConfigFile); err != nil {
			return client.Options{}, fmt.Errorf("read temporal.config_file: %w", err)
		}
	}
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFilePath:    cfg.ConfigFile,
		ConfigFileProfile: cfg.Profile,
		EnvLookup:         lookup(env),
	})
	if err != nil {
		return client.Options{}, fmt.Errorf("load Temporal profile %q: %w", cfg.Profile, err)
	}
	opts.HostPort = cmp.Or(cfg.Address, opts.HostPort, defaultAddress)
	opts.Namespace = cmp.Or(cfg.Namespace, opts.Namespace, defaultNamespace)
	// Histories hold references, so that there is little to compress: gzip took 4 % of a worker's processor time.
	opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return opts, nil
}

// lookup is an environment of NAME=value entries for the SDK. Later entries override earlier ones.
type lookup []string

// Environ returns all entries.
func (l lookup) Environ() []string { return l }

// LookupEnv returns the value of a variable.
func (l lookup) LookupEnv(name string) (string, bool) {
	for _, entry := range slices.Backward(l) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
