package telegram_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

// ann is linked to acme's user ann in most tests; bob is not linked.
const (
	ann = int64(111)
	bob = int64(222)

	patience = 30 * time.Second
)

// bench is a bot with its fake of Telegram, and an inbox whose turns the test drives.
type bench struct {
	t       *testing.T
	api     *telegramtest.API
	store   *telegramtest.Store
	rt      *gatewaytest.Runtime
	channel *telegram.Channel
	logs    *observer.ObservedLogs
	core    *zap.Logger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	b := &bench{t: t, api: telegramtest.New(t), store: telegramtest.NewStore(t), rt: gatewaytest.New(), logs: logs, core: zap.New(core)}
	b.store.Link("111", "acme", "ann", agent.LinkScopes()...)
	return b
}

func (b *bench) config() telegram.Config {
	return telegram.Config{
		Token: telegramtest.Token(), APIURL: b.api.URL(), Store: b.store, Agent: "analyst", EditEvery: 10 * time.Millisecond, Logger: b.core,
	}
}

// start serves until the test ends, or stop is called.
func (b *bench) start(change func(c *telegram.Config)) (stop func()) {
	b.t.Helper()
	cfg := b.config()
	if change != nil {
		change(&cfg)
	}
	channel, err := telegram.New(cfg)
	require.NoError(b.t, err)
	b.channel = channel
	return b.serve(channel)
}

func (b *bench) serve(channel *telegram.Channel) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	served := make(chan error, 1)
	go func() { served <- channel.Serve(ctx, b.rt) }()
	stopped := false
	stop = func() {
		b.t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-served:
			require.NoError(b.t, err)
		case <-time.After(patience):
			require.FailNow(b.t, "the channel does not end")
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// turn waits for the n-th turn, counted from 1, and returns its id. A message that several processes submit is one turn.
func (b *bench) turn(n int) agent.TurnID {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		keys := map[string]bool{}
		for _, e := range b.rt.Submitted() {
			keys[e.Request.IdempotencyKey] = true
		}
		return len(keys) >= n
	}, patience, time.Millisecond, "turn %d", n)
	return agent.TurnID(fmt.Sprint("turn-", n))
}

func (b *bench) submitted(n int) []agent.Envelope {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return len(b.rt.Submitted()) >= n }, patience, time.Millisecond, "turn %d", n)
	return b.rt.Submitted()
}

func token(producer, text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: producer, Attempt: 1}, Type: agent.EventToken, Text: text}
}

// awaitSettled waits until no answer is owed.
func (b *bench) awaitSettled() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.store.Owed() == 0 }, patience, 5*time.Millisecond)
}

// awaited returns the next value of a chan.
func awaited[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "waited in vain")
		var none T
		return none
	}
}

// logged returns the whole log as text.
func (b *bench) logged() string {
	var s strings.Builder
	for _, e := range b.logs.All() {
		s.WriteString(e.Message)
		for _, f := range e.Context {
			s.WriteString(" " + f.Key + "=" + f.String)
			if f.Interface != nil {
				if err, ok := f.Interface.(error); ok {
					s.WriteString(err.Error())
				}
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}

func TestMain(m *testing.M) { postgrestest.Main(m) }
