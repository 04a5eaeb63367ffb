package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// configure sets the same as the Dockerfile, and labels with the version of the worker.
func configure(c *v1.Config, worker string) error {
	info, err := buildinfo.ReadFile(worker)
	if err != nil {
		return fmt.Errorf("read the version of %s: %w", worker, err)
	}
	c.User = "65532:65532"
	c.Env = append(c.Env, "TURNSTONE_DATA_DIR=/var/lib/turnstone")
	c.WorkingDir = "/var/lib/turnstone"
	c.Volumes = map[string]struct{}{"/var/lib/turnstone": {}}
	c.ExposedPorts = map[string]struct{}{"8080": {}, "9090": {}}
	c.Entrypoint, c.Cmd = []string{"/usr/local/bin/worker"}, nil
	c.Healthcheck = &v1.HealthConfig{
		Test: []string{"CMD", "/usr/local/bin/worker", "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
	}
	c.Labels = map[string]string{
		"org.opencontainers.image.source": "https://github.com/turnstone-run/turnstone", "org.opencontainers.image.version": info.Main.Version,
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			c.Labels["org.opencontainers.image.revision"] = s.Value
		}
	}
	return nil
}

// certificates returns Mozilla's certificate authorities as PEM, in the version of the module golang.org/x/crypto/x509roots/fallback. Like the file of
// Linux distributions, it lacks the dates from which Mozilla distrusts some of them.
func certificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
