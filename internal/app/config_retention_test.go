package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// What older settings say stands until the new ones say otherwise; a tenant is as all are but for what its section names.
func TestRetentionPolicy(t *testing.T) {
	set := app.Default()
	p := set.RetentionPolicy()
	require.Equal(t, []time.Duration{168 * time.Hour, 8760 * time.Hour, 0}, []time.Duration{
		p.For("acme", retention.Events), p.For("acme", retention.Audit), p.For("acme", retention.Transcripts),
	})

	cfg, err := app.Load(sources(t, `
events: {retention: 5m}
retention:
  every: 10m
  keep: {transcripts: 365d, audit: 0}
  tenants:
    - {tenant: acme, transcripts: 30d, traces: 48h}
`, nil))
	require.NoError(t, err)
	p = cfg.RetentionPolicy()
	require.Equal(t, 10*time.Minute, p.Every)
	require.Equal(t, 365*24*time.Hour, p.For("other", retention.Transcripts))
	require.Equal(t, 30*24*time.Hour, p.For("acme", retention.Transcripts))
	require.Equal(t, 48*time.Hour, p.For("acme", retention.Traces))
	require.Zero(t, p.For("other", retention.Traces))
	require.Zero(t, p.For("acme", retention.Audit), "0 is for ever, whatever gateway.audit_keep says")
	require.Equal(t, time.Hour, p.For("acme", retention.Events), "what is swept by the hour")
}

func TestFaultsOfRetention(t *testing.T) {
	for text, says := range map[string]string{
		"retention: {every: 10s}":                                                  "retention.every",
		"retention: {remember: 1h}":                                                "retention.remember",
		"retention: {keep: {traces: soon}}":                                        "retention.keep.traces",
		"retention: {keep: {traces: -1h}}":                                         "retention.keep.traces",
		"retention: {keep: {usage: 7d}}":                                           "retention.keep.usage",
		"retention: {keep: {blobs: 7d}}":                                           "retention.keep.blobs",
		"retention: {tenants: [{tenant: 'a b'}]}":                                  "retention.tenants[0].tenant",
		"retention: {tenants: [{tenant: a}, {tenant: a}]}":                         "retention.tenants[1].tenant",
		"retention: {tenants: [{tenant: a, results: 1m}]}":                         "retention.tenants[0].results",
		"retention: {tenants: [{tenant: a, keep: {results: 1h}}]}":                 "retention.tenants[0].keep",
		"retention: {keep: {transcripts: 30d}, tenants: [{tenant: a, blobs: 7d}]}": "retention.tenants[0].blobs",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := app.Load(sources(t, text, nil))
			require.ErrorContains(t, err, says)
		})
	}
}
