package health_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/health"
)

// closedPort is one where nobody listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestBlobs(t *testing.T) {
	folder := t.TempDir()
	p := health.BlobProbe(health.OpenBucket("file://" + folder))
	r := ask(t, p)
	require.Equal(t, health.OK, r.State, r.Detail)
	left := 0
	require.NoError(t, filepath.Walk(folder, func(_ string, i os.FileInfo, _ error) error {
		if !i.IsDir() {
			left++
		}
		return nil
	}))
	require.Zero(t, left, "it tidies up")

	r = ask(t, health.BlobProbe(health.OpenBucket("file://"+folder+"/missing")))
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "It is not there")
	require.Contains(t, r.Hint, "storage.blob_url")
	r = ask(t, health.BlobProbe(health.OpenBucket("nothing://x")))
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "storage.blob_url")

	closed := memblob.OpenBucket(nil)
	require.NoError(t, closed.Close())
	r = ask(t, health.BlobProbe(func(context.Context) (*blob.Bucket, error) { return closed, nil }))
	require.Equal(t, health.Down, r.State)
}

// A probe that writes does so once a minute, however often health is read.
func TestBlobsAreWrittenSeldom(t *testing.T) {
	opened := 0
	b := board(t, health.BlobProbe(func(context.Context) (*blob.Bucket, error) {
		opened++
		return nil, errors.New("no")
	}))
	for range 100 {
		b.Read(t.Context())
	}
	require.Equal(t, 1, opened)
}

func TestDisk(t *testing.T) {
	r := ask(t, health.DiskProbe(t.TempDir()))
	require.Contains(t, r.Detail, "free")
	r = ask(t, health.DiskProbe("/nowhere/at/all"))
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "check the path")
	const gib = 1 << 30
	for _, c := range []struct {
		free, total, freeFiles, files uint64
		want                          health.State
	}{
		{100 * gib, 500 * gib, 10, 10, health.OK},
		{gib, 500 * gib, 0, 0, health.Degraded},
		{gib, 4 * gib, 0, 0, health.OK}, // a small disk is not a full one
		{100 << 20, 400 << 20, 0, 0, health.Degraded},
		{100 * gib, 500 * gib, 5, 1000, health.Degraded},
	} {
		require.Equal(t, c.want, health.Room(c.free, c.total, c.freeFiles, c.files).State, "%+v", c)
	}
}

func TestRedis(t *testing.T) {
	server := miniredis.RunT(t)
	_, err := server.Lpush("jobs", "x")
	require.NoError(t, err)
	p, err := health.RedisProbe("redis://"+server.Addr(), "jobs")
	require.NoError(t, err)
	r := ask(t, p)
	require.Equal(t, health.OK, r.State, r.Detail)
	require.Contains(t, r.Detail, "1 jobs waiting")
	server.RequireAuth("a" + "word")
	locked, err := health.RedisProbe("redis://"+server.Addr(), "jobs")
	require.NoError(t, err)
	r = ask(t, locked)
	require.Equal(t, health.Degraded, r.State, "everything but jobs runs")
	require.Contains(t, r.Hint, "credentials")
	server.Close()
	r = ask(t, p)
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "jobs.redis_url")
	word := "secret" + "-of-redis"
	_, err = health.RedisProbe("http://:"+word+"@x", "jobs")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.NotContains(t, err.Error(), word)
}

func TestEventLogAndTelemetry(t *testing.T) {
	require.Equal(t, health.OK, ask(t, health.EventLogProbe(nil)).State)
	require.Equal(t, health.OK, ask(t, health.EventLogProbe(func() bool { return true })).State)
	r := ask(t, health.EventLogProbe(func() bool { return false }))
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "LISTEN")
	require.Equal(t, health.OK, ask(t, health.TelemetryProbe(func() (bool, string) { return true, "10 spans" })).State)
	r = ask(t, health.TelemetryProbe(func() (bool, string) { return false, "refused" }))
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "OTLP")
}

func TestRetention(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		s    health.Schedule
		err  error
		want health.State
	}{
		"on time":   {s: health.Schedule{Every: time.Hour, Last: now.Add(-time.Hour)}, want: health.OK},
		"new":       {s: health.Schedule{Every: time.Hour}, want: health.OK},
		"paused":    {s: health.Schedule{Paused: true, Note: "for the audit", Last: now}, want: health.Degraded},
		"late":      {s: health.Schedule{Every: time.Hour, Last: now.Add(-4 * time.Hour)}, want: health.Degraded},
		"not asked": {err: errors.New("no schedule"), want: health.Degraded},
	} {
		r := ask(t, health.RetentionProbe(func(context.Context) (health.Schedule, error) { return c.s, c.err }))
		require.Equal(t, c.want, r.State, name)
		require.Equal(t, c.want == health.OK, r.Hint == "", name)
	}
}

func TestCatalog(t *testing.T) {
	status := agent.CatalogStatus{Revision: 7, Sources: []agent.SourceStatus{{Name: "store", OK: true, Detail: "revision 7"}}}
	agents := []agent.AgentInfo{{Name: "analyst", Default: true}}
	d := &health.Documents{
		Status: func(context.Context) agent.CatalogStatus { return status },
		Agents: func(context.Context) ([]agent.AgentInfo, error) { return agents, nil },
		Head:   func(context.Context) (int64, error) { return 7, nil },
	}
	r := ask(t, d.Probe())
	require.Equal(t, health.OK, r.State)
	require.Equal(t, "store: revision 7", r.Detail)

	agents = nil
	r = ask(t, d.Probe())
	require.Contains(t, r.Hint, "default_agent")
	agents = []agent.AgentInfo{{Name: "analyst", Default: true}, {Name: "clerk", Fault: "no model profile \"x\""}}
	r = ask(t, d.Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "starter agents list")
	require.Contains(t, r.Detail, "agent clerk: no model profile")

	status.Sources = append(status.Sources, agent.SourceStatus{Name: "folder", Detail: "2 files", Faults: agent.Faults{
		{File: "a.yaml", Line: 3, Message: "one"}, {File: "b.yaml", Message: "two"}, {File: "c.yaml", Message: "three"}, {File: "d.yaml", Message: "four"},
	}})
	r = ask(t, d.Probe())
	require.Contains(t, r.Hint, "starter catalog status")
	require.Contains(t, r.Detail, "a.yaml:3")
	require.Contains(t, r.Detail, "(and 1 more)")
}

// What was stored a moment ago is being read: only what stays behind is said.
func TestCatalogBehind(t *testing.T) {
	d := &health.Documents{
		Status: func(context.Context) agent.CatalogStatus { return agent.CatalogStatus{Revision: 7} },
		Agents: func(context.Context) ([]agent.AgentInfo, error) { return []agent.AgentInfo{{Default: true}}, nil },
		Head:   func(context.Context) (int64, error) { return 9, nil },
	}
	require.Equal(t, health.OK, ask(t, d.Probe()).State)
	health.SetBehind(d, time.Now().Add(-time.Minute))
	r := ask(t, d.Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Detail, "2 revisions behind the stored 9")
	d.Head = func(context.Context) (int64, error) { return 0, errors.New("gone") }
	require.Equal(t, health.Degraded, ask(t, d.Probe()).State, "never down: the last good state is served")
}
