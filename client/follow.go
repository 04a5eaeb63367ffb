package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/tmaxmax/go-sse"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Follow yields the events of a turn behind an index, in order and each once, until the terminal one. A lost or silent
// connection is made again at the last event seen, for as long as Patience lasts without progress; a server that cannot be
// reached at the beginning is an error at once. An offset at the end of the stream yields nothing. [agent.ErrGap] when events
// behind the offset have expired.
func (c *Client) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		f := &follower{client: c, what: "turn " + string(id), path: []string{"turns", string(id), "events"}, last: after}
		f.take = func(data string) error { return f.takeEvent(data, yield) }
		if err := f.run(ctx); err != nil {
			yield(agent.Event{}, err)
		}
	}
}

// follower is one run of Follow or WatchCatalog.
type follower struct {
	client    *Client
	what      string // for errors
	path      []string
	query     url.Values
	take      func(data string) error // one event; it moves last and progress
	last      int64                   // the newest id seen
	connected bool                    // ever
	progress  time.Time
}

// errEnd ends a follower without an error to report: the terminal event came, nothing will come, or the consumer stopped.
var errEnd = errors.New("end")

func (f *follower) run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 5*time.Second
	f.progress = time.Now()
	for {
		before := f.last
		err := f.connect(ctx)
		switch {
		case errors.Is(err, errEnd):
			return nil
		case ctx.Err() != nil:
			return &agent.Error{Code: agent.CodeCancelled, Err: context.Cause(ctx)}
		case !f.connected || !mayRecover(err):
			return err
		case time.Since(f.progress) > f.client.cfg.Patience:
			return fmt.Errorf("follow %s: gave up after %s: %w", f.what, f.client.cfg.Patience, err)
		}
		if f.last > before {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		if known, ok := errors.AsType[*agent.Error](err); ok {
			wait = max(wait, min(known.RetryAfter, f.client.cfg.Patience))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// mayRecover reports whether connecting again may help.
func mayRecover(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited:
		return true
	default:
		return false
	}
}

// connect follows over one connection. It never returns nil: a stream that just stops is unavailable.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Covers a server that never answers as well as one that falls silent.
	watchdog := time.AfterFunc(f.client.cfg.IdleTimeout, cancel)
	defer watchdog.Stop()
	header := http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {strconv.FormatInt(f.last, 10)}}
	resp, err := f.client.send(ctx, request{path: f.path, query: f.query, header: header})
	if err != nil {
		return connectionLost(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	f.connected = true
	if resp.StatusCode == http.StatusNoContent {
		return errEnd
	}
	settled := time.Now().Add(f.client.cfg.IdleTimeout / 10)
	body := watchedReader{r: resp.Body, seen: func() {
		watchdog.Reset(f.client.cfg.IdleTimeout)
		if now := time.Now(); now.After(settled) {
			f.progress = now // a stream that has stood for a while and beats is well, though nothing happens
		}
	}}
	for frame, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: f.client.cfg.MaxEvent}) {
		if err != nil {
			return connectionLost(ctx, &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("read events: %w", err)})
		}
		if frame.Data == "" {
			continue // only a comment or a retry hint
		}
		if err := f.take(frame.Data); err != nil {
			return err
		}
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the stream stopped")
}

// connectionLost makes the watchdog's cutting of a connection look like what it is.
func connectionLost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("the stream fell silent: %w", err)}
	}
	return err
}

// undecodable is for data that is no event: a connection cut in the middle of one shows so, and passes.
func (f *follower) undecodable(err error) error {
	return agent.Errorf(agent.CodeUnavailable, "", "decode event behind %d: %w", f.last, err)
}

func (f *follower) takeEvent(data string, yield func(agent.Event, error) bool) error {
	var e agent.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return f.undecodable(err)
	}
	index := e.Meta.EventIndex
	switch {
	case index == 0 && e.Error != nil:
		return streamError(e.Error)
	case index <= f.last:
		return nil // seen already
	}
	f.last, f.progress = index, time.Now()
	if !yield(e, nil) || e.Terminal() {
		return errEnd
	}
	return nil
}

// streamError is an error of the stream itself, as opposed to an error event of the log.
func streamError(fail *agent.Failure) error {
	if fail.Type == gateway.TypeGap {
		return agent.ErrGap
	}
	return fail.AsError()
}

// watchedReader calls seen whenever bytes arrive.
type watchedReader struct {
	r    io.Reader
	seen func()
}

func (w watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.seen()
	}
	return n, err
}
