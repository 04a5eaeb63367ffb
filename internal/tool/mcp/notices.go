package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"
)

// The bounds of what a server may tell us without being asked, in a session.
const (
	noticeRate  = 200 // notifications a second
	noticeBurst = 2000
	noticeBytes = 16 << 20 // of notifications a minute
	// flooded is how many notifications during a call are one reason to give up its session when the call got no answer in time.
	flooded = 200

	logMethod = "notifications/message"
)

// notices are the notifications of one session. Beyond their bounds the session is over. It is safe for concurrent use.
type notices struct {
	count, bytes, logs *rate.Limiter
	seen               atomic.Int64
	once               sync.Once
	over               chan struct{} // closed when a bound is broken
}

func newNotices() *notices {
	return &notices{
		count: rate.NewLimiter(noticeRate, noticeBurst), bytes: rate.NewLimiter(rate.Limit(noticeBytes)/rate.Limit(time.Minute/time.Second), noticeBytes),
		logs: rate.NewLimiter(logRate, logBurst), over: make(chan struct{}),
	}
}

// take counts a notification of so many bytes; false when it is one too many. Once one was, each is.
func (n *notices) take(size int) bool {
	n.seen.Add(1)
	if n.isOver() {
		return false
	}
	if n.count.Allow() && n.bytes.AllowN(time.Now(), size) {
		return true
	}
	n.once.Do(func() { close(n.over) })
	return false
}

func (n *notices) isOver() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// drops reports whether a message need not be looked at: a log message beyond the rate at which they come to our log.
func (n *notices) drops(msg *jsonrpc.Request) bool { return msg.Method == logMethod && !n.logs.Allow() }

// eventMeter counts the events of an event stream. An event is counted when the next one begins: the answer to a request is the last of its
// stream, and no notification, so that its size is not held against the server.
type eventMeter struct {
	notices *notices
	line    int // bytes of the line under way, without its end
	size    int // bytes of the event under way
	last    int // bytes of the one before, which is not counted yet
}

// read looks at what was read of the stream; false when there was one event too many.
func (m *eventMeter) read(p []byte) bool {
	for _, c := range p {
		switch c {
		case '\r':
		case '\n':
			if m.line == 0 && m.size > 0 {
				m.last, m.size = m.size, 0
			}
			m.line = 0
		default:
			if m.size == 0 && m.last > 0 {
				if !m.notices.take(m.last) {
					return false
				}
				m.last = 0
			}
			m.line++
			m.size++
		}
	}
	return true
}
