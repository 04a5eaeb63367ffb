//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

const relayTarget = "relay"

// targets are the names of what benchmarks ask: the plain relay first, which the others are compared with, and a worker in its two modes.
var targets = []string{relayTarget, string(agent.ModeDirect), string(agent.ModeDurable)}

// target receives the turns of a benchmark. It has its own processes and an empty database.
type target struct {
	*site // nil of the relay
	name  string
	url   string
	http  *http.Client
	meter
}

// openTarget starts the processes of a target in front of a model.
func openTarget(b *testing.B, name, binary string, provider *turnstonetest.Model) *target {
	b.Helper()
	t := &target{name: name, http: benchClient()}
	if name == relayTarget {
		p := startRelay(b, provider)
		t.url, t.process = "http://"+p.addr, p.cmd.Process.Pid
		return t
	}
	database := startPostgres(b, postgresHome(b)).DSN()
	set := turnstonetest.Settings(b, provider.Use, func(c *app.Config) { c.Database.URL = app.Secret(database) })
	set.Temporal.Address = freeAddr(b)
	t.site = &site{bench: &bench{system: &system{t: b, set: set}, env: environment(set)}, folder: filepath.Join(b.TempDir(), "temporal")}
	t.startTemporal()
	worker := t.spawn(binary, freeAddr(b), []string{
		"TURNSTONE_DATABASE_MAX_CONNS=20", "TURNSTONE_TOOLS_PIPELINE_CACHE_TTL=0", "TURNSTONE_EGRESS_ALLOW_PRIVATE=" + set.Egress.AllowPrivate[0],
		"TURNSTONE_TEMPORAL_MAX_CONCURRENT_ACTIVITIES=4096", "TURNSTONE_TEMPORAL_MAX_CONCURRENT_LOCAL_ACTIVITIES=4096",
		"TURNSTONE_TURN_DIRECT_TURNS=4096", // more than the streams of any benchmark
	})
	t.url = "http://" + worker.addr + "/v1/turns"
	t.process, t.meter.temporal = worker.cmd.Process.Pid, t.site.temporal.cmd.Process.Pid
	t.watchDatabase(b, database)
	return t
}

func startRelay(b *testing.B, provider *turnstonetest.Model) *process {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	cmd, addr := exec.Command(self), freeAddr(b)
	cmd.Env = []string{relayAddr + "=" + addr, relayModel + "=" + provider.URL()}
	_, err = cmd.StdinPipe() // it ends with this process
	require.NoError(b, err)
	p := startProcess(b, "relay", cmd)
	p.addr = addr
	p.awaitReady()
	return p
}

// refusedError is the answer to a request that did not begin a turn and may come again.
type refusedError struct {
	status int
	after  time.Duration // how long to wait
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("refused with %d for %s", e.status, e.after)
}

// ask runs a turn, calls token for each piece of its answer, and returns when the turn has ended.
func (t *target) ask(ctx context.Context, message string, token func(text string)) error {
	body := fmt.Sprintf(`{"message":%q,"mode":%q}`, message, t.name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := t.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	switch {
	case resp.StatusCode == http.StatusOK:
		return readTurn(resp, token)
	case err == nil && (resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests):
		return &refusedError{status: resp.StatusCode, after: time.Duration(seconds) * time.Second}
	default:
		return errors.New(resp.Status)
	}
}

// readTurn reads events to the end of the stream.
func readTurn(resp *http.Response, token func(text string)) error {
	lines, ended := bufio.NewScanner(resp.Body), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var e struct {
			Type   agent.EventType        `json:"type"`
			Text   string                 `json:"text"`
			Status agent.EventStatusValue `json:"status"`
			Error  *agent.Failure         `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		switch {
		case e.Type == agent.EventToken:
			token(e.Text)
		case e.Type == agent.EventError, e.Status == agent.StatusFailed, e.Status == agent.StatusCancelled:
			return fmt.Errorf("%s %s: %+v", e.Type, e.Status, e.Error)
		case e.Status == agent.StatusCompleted:
			ended = true
		}
	}
	if !ended {
		return errors.Join(errors.New("the stream ended before its turn"), lines.Err())
	}
	return nil
}

// askUntilAccepted is ask for a client that comes again when it is refused, after the time that it is told.
func (t *target) askUntilAccepted(ctx context.Context, message string, token func(text string)) (refusals int, err error) {
	for {
		err := t.ask(ctx, message, token)
		var refused *refusedError
		if !errors.As(err, &refused) {
			return refusals, err
		}
		refusals++
		select {
		case <-time.After(refused.after):
		case <-ctx.Done():
			return refusals, err
		}
	}
}

// baseline is the relay's processor time for something, in seconds, by a number that the benchmark chooses.
type baseline map[int]float64

// compare keeps the relay's time, and reports that of the others as a multiple of it.
func (l baseline) compare(b *testing.B, t *target, key int, cpu float64) {
	b.Helper()
	if t.name == relayTarget {
		l[key] = cpu
	} else if l[key] > 0 {
		b.ReportMetric(cpu/l[key], "cpu/relay")
	}
}
