package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	isFull := func(s *slots) bool {
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
			first := s.acquire(10, true)
			require.False(t, isFull(s))
			second := s.acquire(10, true)
			require.True(t, isFull(s))
			second.setRunning(false)
			second.setRunning(false)
			require.Equal(t, name != "running", isFull(s))
			second.setRunning(true)
			require.True(t, isFull(s))
			hasRoom := make(chan error)
			go func() { hasRoom <- s.waitForRoom(t.Context()) }()
			first.release()
			require.NoError(t, <-hasRoom)
			first.setRunning(true) // has no effect after release
			require.Equal(t, 1, s.runningCount())
			second.release()
			require.Zero(t, s.runningCount()+s.held+s.bytes)
			s.waitUntilIdle(t.Context())
		})
	}
}

func TestWaitUntilIdle(t *testing.T) {
	s := newSlots(2, 2, 100)
	slot := s.acquire(1, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.waitUntilIdle(ctx)
	require.Error(t, ctx.Err())
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.waitUntilIdle(t.Context())
	}()
	slot.setRunning(false)
	<-idle
}
