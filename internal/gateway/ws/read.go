package ws

import (
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/turnstone-run/turnstone/agent"
)

// errBinary is the error for a binary frame.
var errBinary = agent.Invalid("", "want text frames with one JSON object each, got a binary frame")

// read reads frames until the client has disconnected. The library handles pings, pongs and the close handshake while it reads.
func (s *socket) read() {
	for {
		data, err := s.readFrame()
		switch {
		case err == nil:
			s.handleFrame(data)
		case errors.Is(err, errBinary):
			s.fail("", err)
		case agent.CodeOf(err) == agent.CodeOverflow:
			s.fail("", err)
			s.closeGracefully(errLarge)
			<-s.ctx.Done() // the close handshake discards the remaining bytes of the frame
			return
		default:
			return
		}
	}
}

// readFrame reads one frame, with limits of size and time.
func (s *socket) readFrame() ([]byte, error) {
	s.isReading.Store(true)
	typ, r, err := s.conn.Reader(s.ctx)
	s.isReading.Store(false)
	if err != nil {
		return nil, err // the client has disconnected
	}
	s.lifeSigns.Add(1)
	l := s.v.Limits()
	timer := time.AfterFunc(l.ReadTimeout, func() { s.closeGracefully(errSlow) })
	defer timer.Stop()
	data, err := io.ReadAll(io.LimitReader(r, l.BodyBytes+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > l.BodyBytes:
		return nil, agent.Errorf(agent.CodeOverflow, "", "the frame is larger than %d bytes", l.BodyBytes)
	case typ != websocket.MessageText:
		return nil, errBinary
	}
	return data, nil
}

// handleFrame answers one frame, or starts a goroutine that does.
func (s *socket) handleFrame(data []byte) {
	r, err := decode(data)
	if err == nil {
		err = s.begin(r, int64(len(data)))
	}
	if err != nil {
		s.refuse(r.ID, err)
	}
}

// refuse sends an error for a frame. If a follow has the frame's id, the error has no id, so that the client does not take it for the end of the follow.
func (s *socket) refuse(id string, err error) {
	s.mu.Lock()
	if s.follows[id] != nil {
		id = ""
	}
	s.mu.Unlock()
	s.fail(id, err)
}

// followQuery starts the follow that the URL asks for, ?turn_id=…&after_index=…, with the id "". Its errors are sent as frames, because a browser
// does not show the response to a refused handshake.
func (s *socket) followQuery(q url.Values) error {
	id, index := q.Get("turn_id"), q.Get("after_index")
	if id == "" && index == "" {
		return nil
	}
	r := &request{Type: typeFollow, TurnID: agent.TurnID(id)}
	after, err := strconv.ParseInt(index, 10, 64)
	switch {
	case id == "":
		return agent.Invalid("turn_id", "is missing: after_index is an index of its events")
	case index != "" && (err != nil || after < 0):
		return agent.Invalid("after_index", "want a whole number of 0 or more, got %.60q", index)
	}
	r.AfterIndex = &after
	return s.begin(r, 0)
}
