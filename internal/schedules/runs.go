// Package schedules has the use cases of a run of a schedule: submit its turn, wait for the end, store the result and notify. They return ids
// and statuses only; messages and answers stay in the store.
package schedules

import (
	"cmp"
	"errors"
	"time"

	"go.uber.org/zap"
)

// Bounds of a run.
const (
	maxOutput      = 4 << 10          // bytes of an answer that a run and its notifications show
	maxChatText    = 3500             // bytes of a message to a chat
	maxFailureText = 500              // bytes of a failure's message in a result
	hookTimeout    = 30 * time.Second // of one request to a webhook
)

// Config is the configuration of [New]. Store and Inbox are required. Without a port for notifications, notices of that kind fail.
type Config struct {
	Store    Store
	Inbox    Inbox
	Webhooks Webhooks
	Mailer   Mailer
	People   People
	Logger   *zap.Logger

	Keep  int           // finished runs of a schedule that are kept; 0: 100
	Watch time.Duration // the longest time that one Await follows a turn; 0: 10 min
}

// Runs carries out what a run of a schedule does, step by step.
type Runs struct{ Config }

// New checks the configuration and fills in the defaults.
func New(c Config) (*Runs, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("schedules: Store is missing")
	case c.Inbox == nil:
		return nil, errors.New("schedules: Inbox is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Keep = cmp.Or(max(c.Keep, 0), 100)
	c.Watch = cmp.Or(max(c.Watch, 0), 10*time.Minute)
	return &Runs{c}, nil
}
