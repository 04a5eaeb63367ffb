package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	full := func(s *slots) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return s.waitForRoom(ctx) != nil
	}
	for name, s := range map[string]*slots{
		"running": newSlots(2, 100, 1000),
		"held":    newSlots(100, 2, 1000),
		"bytes":   newSlots(100, 100, 20),
	} {
		t.Run(name, func(t *testing.T) {
			first := s.enter(10, true)
			require.False(t, full(s))
			second := s.enter(10, true)
			require.True(t, full(s))
			second.setRunning(false)
			second.setRunning(false)
			require.Equal(t, name != "running", full(s))
			second.setRunning(true)
			require.True(t, full(s))
			free := make(chan error)
			go func() { free <- s.waitForRoom(t.Context()) }()
			first.leave()
			require.NoError(t, <-free)
			first.setRunning(true) // it has left
			require.Equal(t, 1, s.runningCount())
			second.leave()
			require.Zero(t, s.runningCount()+s.held+s.bytes)
			s.waitUntilIdle(t.Context())
		})
	}
}

func TestIdleWaits(t *testing.T) {
	s := newSlots(2, 2, 100)
	p := s.enter(1, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.waitUntilIdle(ctx)
	require.Error(t, ctx.Err())
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.waitUntilIdle(t.Context())
	}()
	p.setRunning(false)
	<-idle
}
