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

// errBinary refuses what is no text frame.
var errBinary = agent.Invalid("", "want text frames that hold one JSON object each, got a binary one")

// read reads frames until the client is gone. It also has to read for pings, pongs and the close handshake to work.
func (s *socket) read() {
	for {
		data, err := s.next()
		switch {
		case err == nil:
			s.take(data)
		case errors.Is(err, errBinary):
			s.fail("", err)
		case agent.CodeOf(err) == agent.CodeOverflow:
			s.fail("", err)
			s.end(errLarge)
			<-s.ctx.Done() // the rest of the frame is the close handshake's to throw away
			return
		default:
			return
		}
	}
}

// next reads one frame within its bounds of size and time.
func (s *socket) next() ([]byte, error) {
	s.reading.Store(true)
	typ, r, err := s.conn.Reader(s.ctx)
	s.reading.Store(false)
	if err != nil {
		return nil, err // whatever it says, the client is gone
	}
	s.lifeSigns.Add(1)
	l := s.v.Limits()
	slow := time.AfterFunc(l.ReadTimeout, func() { s.end(errSlow) })
	defer slow.Stop()
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

// take works on one frame, in the background where that may take a while.
func (s *socket) take(data []byte) {
	r, err := decode(data)
	if err == nil {
		err = s.begin(r, int64(len(data)))
	}
	if err != nil {
		s.refuse(r.ID, err)
	}
}

// refuse answers a frame that nobody works on. Were a follow of the same id told, its client would take it for the follow's end.
func (s *socket) refuse(id string, err error) {
	s.mu.Lock()
	if s.follows[id] != nil {
		id = ""
	}
	s.mu.Unlock()
	s.fail(id, err)
}

// followQuery is the follow that the URL asks for, ?turn_id=…&after_index=…, under the id "". Its errors are frames: a browser does not
// show the answer to a handshake that is refused.
func (s *socket) followQuery(q url.Values) error {
	id, index := q.Get("turn_id"), q.Get("after_index")
	if id == "" && index == "" {
		return nil
	}
	r := &request{Type: typeFollow, TurnID: agent.TurnID(id)}
	after, err := strconv.ParseInt(index, 10, 64)
	switch {
	case id == "":
		return agent.Invalid("turn_id", "is missing: after_index is of a turn")
	case index != "" && (err != nil || after < 0):
		return agent.Invalid("after_index", "want a whole number of 0 or more, got %.60q", index)
	}
	r.AfterIndex = &after
	return s.begin(r, 0)
}
