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
		return s.room(ctx) != nil
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
			second.run(false)
			second.run(false)
			require.Equal(t, name != "running", full(s))
			second.run(true)
			require.True(t, full(s))
			free := make(chan error)
			go func() { free <- s.room(t.Context()) }()
			first.leave()
			require.NoError(t, <-free)
			first.run(true) // it has left
			require.Equal(t, 1, s.count())
			second.leave()
			require.Zero(t, s.count()+s.held+s.bytes)
			s.idle(t.Context())
		})
	}
}

func TestIdleWaits(t *testing.T) {
	s := newSlots(2, 2, 100)
	p := s.enter(1, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.idle(ctx)
	require.Error(t, ctx.Err())
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.idle(t.Context())
	}()
	p.run(false)
	<-idle
}
