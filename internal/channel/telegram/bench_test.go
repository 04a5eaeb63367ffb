package telegram_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

// ann and bob are chats. ann is linked to the user ann of acme in most tests; bob is not linked.
const (
	ann = int64(111)
	bob = int64(222)

	testTimeout = 30 * time.Second
)

// bench is a bot with a fake Telegram and a fake runtime, whose turns the test drives.
type bench struct {
	t       *testing.T
	api     *telegramtest.API
	store   *telegramtest.Store
	rt      *gatewaytest.Runtime
	channel *telegram.Channel
	logs    *observer.ObservedLogs
	logger  *zap.Logger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	b := &bench{t: t, api: telegramtest.New(t), store: telegramtest.NewStore(t), rt: gatewaytest.New(), logs: logs, logger: zap.New(core)}
	b.store.Link("111", "acme", "ann", agent.LinkScopes()...)
	return b
}

func (b *bench) config() telegram.Config {
	return telegram.Config{
		Token: telegramtest.Token(), APIURL: b.api.URL(), Store: b.store, Agent: "analyst", EditEvery: 10 * time.Millisecond, Logger: b.logger,
	}
}

// start runs the channel until the test ends or stop is called. change may change the configuration.
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
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, receive(b.t, served))
	})
	b.t.Cleanup(stop)
	return stop
}

// ask sends a message of ann, and waits for the nth turn.
func (b *bench) ask(text string, n int) agent.TurnID {
	b.t.Helper()
	b.api.Send(ann, text)
	return b.awaitTurn(n)
}

// awaitTurn waits for the n-th turn, counted from 1, and returns its id. A message that several processes submit is one turn.
func (b *bench) awaitTurn(n int) agent.TurnID {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		keys := map[string]bool{}
		for _, e := range b.rt.Submitted() {
			keys[e.Request.IdempotencyKey] = true
		}
		return len(keys) >= n
	}, testTimeout, time.Millisecond, "turn %d", n)
	return agent.TurnID(fmt.Sprint("turn-", n))
}

// awaitEnvelopes waits until n envelopes were submitted, and returns all.
func (b *bench) awaitEnvelopes(n int) []agent.Envelope {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return len(b.rt.Submitted()) >= n }, testTimeout, time.Millisecond, "turn %d", n)
	return b.rt.Submitted()
}

func token(producer, text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: producer, Attempt: 1}, Type: agent.EventToken, Text: text}
}

// awaitSettled waits until no answer is owed.
func (b *bench) awaitSettled() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.store.Owed() == 0 }, testTimeout, 5*time.Millisecond)
}

// receive waits for the next value of a chan.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testTimeout):
		require.FailNow(t, "nothing was received")
		return *new(T)
	}
}

// logText returns the whole log as text.
func (b *bench) logText() string {
	var s strings.Builder
	for _, e := range b.logs.All() {
		s.WriteString(e.Message)
		for _, f := range e.Context {
			s.WriteString(" " + f.Key + "=" + f.String)
			if err, ok := f.Interface.(error); ok {
				s.WriteString(err.Error())
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}

func TestMain(m *testing.M) { postgrestest.Main(m) }
