// Package cluster is what programs need of a Temporal cluster before they talk to it: how to connect, and the search attributes. It
// links neither server nor database, so that the command line stays small.
package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

const (
	defaultTemporalAddress   = "127.0.0.1:7233"
	defaultTemporalNamespace = "default"
)

// Connection is what configuration says over profile and environment; empty fields say nothing.
type Connection struct {
	Address    string // host:port
	Namespace  string
	Profile    string // a section of temporal.toml
	ConfigFile string // path of temporal.toml
}

// Options says how to reach Temporal: a profile of temporal.toml, TEMPORAL_* variables (API key, mTLS, headers; env is as in
// os.Environ), and over both what cfg names. So profiles, keys and certificates that work with the CLI work here. The caller adds
// logger, metrics and interceptors. Errors name the file, profile or key pair at fault and hold no secret.
//
// Where cfg.ConfigFile is empty and TEMPORAL_CONFIG_FILE too, the SDK finds the user's configuration folder by itself.
func Options(cfg Connection, env []string) (client.Options, error) {
	if cfg.ConfigFile != "" { // the SDK passes over a file that is missing, also one that was asked for
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
	if cfg.Address != "" {
		opts.HostPort = cfg.Address
	}
	if cfg.Namespace != "" {
		opts.Namespace = cfg.Namespace
	}
	if opts.HostPort == "" {
		opts.HostPort = defaultTemporalAddress
	}
	if opts.Namespace == "" {
		opts.Namespace = defaultTemporalNamespace
	}
	// Histories hold references, so that there is little to compress: gzip took 4 % of a worker's processor time.
	opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return opts, nil
}

// lookup is an environment for the SDK: NAME=value entries, a later one overriding an earlier.
type lookup []string

// Environ is the list itself.
func (l lookup) Environ() []string { return l }

// LookupEnv finds a variable.
func (l lookup) LookupEnv(name string) (string, bool) {
	for _, entry := range slices.Backward(l) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
