package app

import (
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/internal/cluster"
)

// TemporalOptions says how to reach Temporal: see [cluster.Options].
func TemporalOptions(cfg Temporal, env []string) (client.Options, error) {
	return cluster.Options(cluster.Connection{
		Address: cfg.Address, Namespace: cfg.Namespace, Profile: cfg.Profile, ConfigFile: cfg.ConfigFile,
	}, env)
}
