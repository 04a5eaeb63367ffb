package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Quietly returns err, or nil if it only says that the client stopped reading: nobody is left to tell.
func Quietly(err error) error {
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// EventStream sends server-sent events in the format of a [Door]'s own API. What is written to it is gathered until Flush.
type EventStream struct{ out *eventWriter }

// NewEventStream returns a stream whose client has the write timeout of the limits to take each batch.
func NewEventStream(w http.ResponseWriter, l Limits) *EventStream {
	return &EventStream{newEventWriter(w, l.WriteTimeout)}
}

// Begin sets the header; it goes out with the first batch.
func (s *EventStream) Begin(mediaType string) { s.out.head(mediaType) }

// Write adds one event to what is gathered, and sends that if it is much.
func (s *EventStream) Write(event []byte) (int, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.buf.Write(event)
	if s.out.buf.Len() < flushBytes {
		return len(event), nil
	}
	return len(event), s.out.flush()
}

// Flush sends what was gathered. A client that does not take it in time is gone, see [Quietly].
func (s *EventStream) Flush() error { return s.out.flushReady() }

// Follow calls take with each event of a source until take says that the stream is over, and reports whether it did. What take has written
// goes out each time before the source waits, as [agent.OnWait] has it; a silence has heartbeats.
func (s *EventStream) Follow(
	ctx context.Context, heartbeat time.Duration, source func(context.Context) iter.Seq2[agent.Event, error],
	take func(*agent.Event) (over bool, err error),
) (over bool, err error) {
	ctx, stop := s.out.sendWhenReady(ctx, heartbeat)
	defer stop()
	for e, err := range source(ctx) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return false, err
		}
		if over, err := take(&e); over || err != nil {
			return over, err
		}
	}
	return false, context.Cause(ctx)
}
