package jobs

import "sync"

// lines keep the jobs of each session in the order in which they were taken: one is under way, and the others wait for it without a place. So
// a session with many jobs, or one that waits for a person, takes one place of a bridge, and none that other sessions need.
type lines struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by session: closed when the last of its jobs has left
}

func newLines() *lines { return &lines{last: map[string]chan struct{}{}} }

// join puts a job at the end of its session's line. before is closed when it is the job's turn, nil when it is already. A job without a
// session stands in no line. Whoever has joined must leave.
func (l *lines) join(session string) (before <-chan struct{}, leave func()) {
	if session == "" {
		return nil, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.last[session]
	own := make(chan struct{})
	l.last[session] = own
	return before, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last[session] == own {
			delete(l.last, session)
		}
		close(own)
	}
}
