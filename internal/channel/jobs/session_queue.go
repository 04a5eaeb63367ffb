package jobs

import "sync"

// sessionQueues keeps the jobs of each session in order. One job of a session is in progress, and the others wait for it without a slot. So a session
// with many jobs, or one that waits for a person, takes at most one slot of the bridge.
type sessionQueues struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by session: closed when the newest job of the session has left
}

func newSessionQueues() *sessionQueues { return &sessionQueues{last: map[string]chan struct{}{}} }

// join adds a job to the queue of its session. The caller must call leave when the job has ended. ready is closed when the job may start; it is nil if
// the job may start now. A job without a session may always start.
func (q *sessionQueues) join(session string) (ready <-chan struct{}, leave func()) {
	if session == "" {
		return nil, func() {}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ready = q.last[session]
	done := make(chan struct{})
	q.last[session] = done
	return ready, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.last[session] == done {
			delete(q.last, session)
		}
		close(done)
	}
}
