package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// maxWaiting bounds those who wait to be admitted for one tenant in one process.
const maxWaiting = 2000

// turnstiles let one at a time through for each tenant. The database does so too, among all processes, but whoever waits there has a
// connection: a tenant that asks for very much would soon have all of them.
type turnstiles struct {
	mu sync.Mutex
	of map[string]*turnstile // of tenants for whom somebody waits or is being let in
}

type turnstile struct {
	free  chan struct{} // holds one while nobody is being let in
	users int
}

// enter waits until it is the caller's turn, who must call leave in the end.
func (t *turnstiles) enter(ctx context.Context, op, tenant string) (leave func(), err error) {
	mine, err := t.join(op, tenant)
	if err != nil {
		return nil, err
	}
	select {
	case <-mine.free:
		return func() {
			mine.free <- struct{}{}
			t.part(tenant, mine)
		}, nil
	case <-ctx.Done():
		t.part(tenant, mine)
		return nil, agent.Interrupted(ctx, op)
	}
}

func (t *turnstiles) join(op, tenant string) (*turnstile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.of[tenant]
	if mine == nil {
		mine = &turnstile{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		if t.of == nil {
			t.of = map[string]*turnstile{}
		}
		t.of[tenant] = mine
	}
	if mine.users >= maxWaiting {
		return nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: op, RetryAfter: time.Second,
			Err: agent.Errorf(agent.CodeUnavailable, "", "%d requests of tenant %q wait to be admitted", mine.users, tenant),
		}
	}
	mine.users++
	return mine, nil
}

func (t *turnstiles) part(tenant string, mine *turnstile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.of, tenant)
	}
}
