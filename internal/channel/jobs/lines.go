package jobs

import "sync"

// lines keep the jobs of each session in order: one is in progress, and the others wait for it without a place. So a session with many jobs, or
// one that waits for a person, takes one place of a bridge at most.
type lines struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by session: closed when the last of its jobs has left
}

func newLines() *lines { return &lines{last: map[string]chan struct{}{}} }

// join adds a job to the line of its session. before is closed when the job may start; it is nil if it may start now. A job without a session
// has no line. The caller must call leave when the job has ended.
func (l *lines) join(session string) (before <-chan struct{}, leave func()) {
	if session == "" {
		return nil, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.last[session]
	done := make(chan struct{})
	l.last[session] = done
	return before, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last[session] == done {
			delete(l.last, session)
		}
		close(done)
	}
}
