package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"
)

// The bounds of the notifications of a server, in a session.
const (
	noticeRate  = 200 // notifications a second
	noticeBurst = 2000
	noticeBytes = 16 << 20 // of notifications a minute
	// floodThreshold is a number of notifications. If more arrive during a call that times out, its session is retired.
	floodThreshold = 200

	logMethod = "notifications/message"
)

// notices counts the notifications of one session. Beyond its bounds the session ends. It is safe for concurrent use.
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

// allow counts a notification of the given number of bytes. It returns false once there are too many.
func (n *notices) allow(size int) bool {
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

// isSurplusLog reports whether a message is a log message beyond the rate at which they are logged.
func (n *notices) isSurplusLog(msg *jsonrpc.Request) bool {
	return msg.Method == logMethod && !n.logs.Allow()
}

// eventMeter counts the events of an event stream. It counts an event when the next one begins: the last event of a stream is the answer
// to a request, which is no notification.
type eventMeter struct {
	notices  *notices
	line     int // bytes of the current line
	size     int // bytes of the current event
	previous int // bytes of the event before, 0 once it is counted
}

// read counts the events in a part of the stream. It returns false once there are too many.
func (m *eventMeter) read(p []byte) bool {
	for _, c := range p {
		switch c {
		case '\r':
		case '\n':
			if m.line == 0 && m.size > 0 {
				m.previous, m.size = m.size, 0
			}
			m.line = 0
		default:
			if m.size == 0 && m.previous > 0 {
				if !m.notices.allow(m.previous) {
					return false
				}
				m.previous = 0
			}
			m.line++
			m.size++
		}
	}
	return true
}
