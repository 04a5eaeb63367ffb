package turnstone

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// channelFunc is a channel made of its Serve function.
type channelFunc func(ctx context.Context, in agent.Inbox) error

func (f channelFunc) Serve(ctx context.Context, in agent.Inbox) error { return f(ctx, in) }

func TestChannels(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ended := make(chan struct{})
	s := &Service{failed: make(chan error, 3), cfg: Config{Channels: []Channel{
		{Name: "good", Channel: channelFunc(func(ctx context.Context, _ agent.Inbox) error {
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		})},
		{Name: "bad", Channel: channelFunc(func(context.Context, agent.Inbox) error { return broken })},
		{Name: "done", Channel: channelFunc(func(context.Context, agent.Inbox) error { return nil })},
	}}}
	ctx, cancel := context.WithCancel(t.Context())
	s.startChannels(ctx, nil)
	cancel() // channels outlive the context of startChannels
	err := <-s.Failed()
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `channel "bad"`)
	select {
	case <-ended:
		require.Fail(t, "the context of startChannels ended a channel")
	default:
	}
	s.stopChannels(t.Context())
	<-ended
	require.Empty(t, s.failed, "a channel that was stopped has not failed")
}

// stopChannels returns when its context ends, even if a channel goes on.
func TestChannelThatDoesNotStop(t *testing.T) {
	t.Parallel()
	testEnded := make(chan struct{})
	defer close(testEnded)
	s := &Service{failed: make(chan error, 3), cfg: Config{Channels: []Channel{
		{Name: "deaf", Channel: channelFunc(func(context.Context, agent.Inbox) error { <-testEnded; return nil })},
	}}}
	s.startChannels(t.Context(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.stopChannels(ctx)
	require.Error(t, ctx.Err())
}

func TestChannelsAreChecked(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]Channel{
		"channels[0].name":    {Channel: channelFunc(nil)},
		"channels[0].channel": {Name: "x"},
	} {
		settings := &Settings{}
		settings.Database.URL = "postgres://x"
		_, err := New(Config{Settings: settings, Channels: []Channel{c}})
		require.Equal(t, field, agent.FailureOf(err).Field, "%v", err)
	}
}
