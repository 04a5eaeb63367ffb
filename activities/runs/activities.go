package runs

import (
	"cmp"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/internal/definitions"
)

// Bounds of a run.
const (
	maxOutput   = 4 << 10 // bytes of an answer that a run and its notifications show
	maxChatText = 3500    // bytes of a message to a chat
	maxFailure  = 500     // bytes of a failure's text in history
)

// Config is what [New] needs; a port for notifications that is nil refuses those that need it, all others are required.
type Config struct {
	Store    Store
	Inbox    Inbox
	Webhooks definitions.Webhooks
	Mailer   definitions.Mailer
	People   People
	Logger   *zap.Logger

	Keep        int           // finished runs of a schedule that are remembered; 0: 100
	Watch       time.Duration // how long one activity follows a turn; 0: 10 min
	HookTimeout time.Duration // of one request to a webhook; 0: 30 s
}

// Activities holds the functions that touch the world on behalf of a run. Only the methods listed in [Activities.Registered] are
// activities.
type Activities struct{ Config }

// New checks the configuration and fills in the bounds.
func New(c Config) (*Activities, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("runs: Store is missing")
	case c.Inbox == nil:
		return nil, errors.New("runs: Inbox is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Keep = cmp.Or(max(c.Keep, 0), 100)
	c.Watch = cmp.Or(max(c.Watch, 0), 10*time.Minute)
	c.HookTimeout = cmp.Or(max(c.HookTimeout, 0), 30*time.Second)
	return &Activities{c}, nil
}

// Registered lists the activities under the names that histories hold.
func (a *Activities) Registered() []activities.Registration {
	return []activities.Registration{
		{Name: "SubmitScheduledRun", Func: a.SubmitScheduledRun},
		{Name: "AwaitScheduledRun", Func: a.AwaitScheduledRun},
		{Name: "CancelScheduledRun", Func: a.CancelScheduledRun},
		{Name: "FinishScheduledRun", Func: a.FinishScheduledRun},
		{Name: "NotifyScheduledRun", Func: a.NotifyScheduledRun},
	}
}
