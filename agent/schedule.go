package agent

import (
	"encoding/json"
	"time"
)

// The kinds of a schedule; each is also the channel of its turns.
const (
	ScheduleRuns      = "scheduled" // an agent that runs by the clock
	ScheduleHeartbeat = "heartbeat" // one that looks whether there is anything to say, and mostly says [HeartbeatQuiet]
)

// HeartbeatQuiet is the answer of a heartbeat that has nothing to say, where the schedule names no other.
const HeartbeatQuiet = "HEARTBEAT_OK"

// What happens when a run is due while the one before is at work.
const (
	OverlapSkip        = "skip" // the default
	OverlapBufferOne   = "buffer_one"
	OverlapBufferAll   = "buffer_all"
	OverlapCancelOther = "cancel_other"
	OverlapTerminate   = "terminate_other" // the turn of the one before goes on, unwatched
	OverlapAllowAll    = "allow_all"
)

// Schedule is an agent that runs by the clock: a turn with a fresh history in a session of its own each time. At least one of Cron and Every
// is given. Durations are texts such as 90s, 15m or 24h.
type Schedule struct {
	Name        string `json:"name"`             // 1 to 64 of A-Z a-z 0-9 . _ -
	Tenant      string `json:"tenant,omitempty"` // the credential's
	Description string `json:"description,omitempty"`

	Kind    string `json:"kind,omitempty"`  // scheduled or heartbeat; empty: scheduled
	Agent   string `json:"agent,omitempty"` // empty: routing decides, each time
	Message string `json:"message"`
	Quiet   string `json:"quiet,omitempty"` // heartbeat: the answer after which nobody is notified; empty: [HeartbeatQuiet]

	Cron          []string   `json:"cron,omitempty"`            // five fields, six with the year, seven with the second and the year; @daily and the like
	Every         string     `json:"every,omitempty"`           // counted from 1970-01-01 00:00 UTC
	TimeZone      string     `json:"time_zone,omitempty"`       // of Cron, by its IANA name; empty: UTC
	Overlap       string     `json:"overlap,omitempty"`         // empty: skip
	Jitter        string     `json:"jitter,omitempty"`          // each run begins up to so much later
	CatchUpWindow string     `json:"catch_up_window,omitempty"` // how late a run may begin after an outage; empty: 1m
	StartAt       *time.Time `json:"start_at,omitempty"`
	EndAt         *time.Time `json:"end_at,omitempty"`

	Model        string          `json:"model,omitempty"`   // must be on the plan's list; empty: the plan's
	UserID       string          `json:"user_id,omitempty"` // on whose behalf
	Limits       *Limits         `json:"limits,omitempty"`  // can only lower the plan's
	Metadata     map[string]any  `json:"metadata,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Notify       []Notification  `json:"notify,omitempty"`

	Approvals ApprovalPolicy `json:"approvals,omitempty"` // wait (the default), refuse, or a list of tools that need no approval

	Paused bool   `json:"paused,omitempty"`
	Note   string `json:"note,omitempty"` // why it is paused, or not

	// What follows is read-only: a request may repeat it, and it is ignored.
	Revision  int64       `json:"revision,omitempty"`   // one more with every change
	CreatedBy string      `json:"created_by,omitempty"` // subject or credential
	UpdatedBy string      `json:"updated_by,omitempty"` // whose rights the runs have
	CreatedAt *time.Time  `json:"created_at,omitempty"`
	UpdatedAt *time.Time  `json:"updated_at,omitempty"`
	Next      []time.Time `json:"next,omitempty"` // when it runs next, as Temporal says; only of a single schedule
}

// When somebody is notified.
const (
	NotifyAlways  = "always" // the default; cancelled runs included
	NotifySuccess = "success"
	NotifyFailure = "failure" // failed or skipped
	NotifyChange  = "change"  // the status or the answer is not that of the run before
)

// Notification is one that is told how a run ended: exactly one of Webhook, Email and Telegram.
type Notification struct {
	On       string        `json:"on,omitempty"` // empty: always
	Webhook  *HookTarget   `json:"webhook,omitempty"`
	Email    *MailTarget   `json:"email,omitempty"`
	Telegram *PersonTarget `json:"telegram,omitempty"`
}

// HookTarget is an address that gets a POST.
type HookTarget struct {
	URL  string `json:"url"`
	Auth string `json:"auth,omitempty"` // an auth profile of the catalog; empty: none
}

// MailTarget are addresses that get a mail.
type MailTarget struct {
	To []string `json:"to"`
}

// PersonTarget is a user who gets a message in the chat that is linked to him.
type PersonTarget struct {
	User string `json:"user"`
}

// The status of a run besides those that a turn ends with.
const (
	ScheduleRunning = "running"
	ScheduleSkipped = "skipped" // the limits left no room for it in time
)

// ScheduleRun is one run of a schedule.
type ScheduleRun struct {
	RunID     string    `json:"run_id"`
	Tenant    string    `json:"tenant"`
	Schedule  string    `json:"schedule"`
	Kind      string    `json:"kind"`
	Workflow  string    `json:"workflow_id"`
	TurnID    TurnID    `json:"turn_id,omitempty"`
	SessionID SessionID `json:"session_id,omitempty"`
	Status    string    `json:"status"` // running, skipped, or a [TurnStatus]
	Output    string    `json:"output,omitempty"`
	ResultRef string    `json:"result_ref,omitempty"`
	Error     *Failure  `json:"error,omitempty"`
	Quiet     bool      `json:"quiet,omitempty"` // a heartbeat that had nothing to say

	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`

	Notices []ScheduleNotice `json:"notices,omitempty"`
}

// The status of a notice.
const (
	NoticePending = "pending"
	NoticeSent    = "sent"
	NoticeFailed  = "failed" // it may be tried again until the run's workflow ends
)

// ScheduleNotice is what became of one notification of a run.
type ScheduleNotice struct {
	Position int       `json:"position"` // in the schedule's list
	Kind     string    `json:"kind"`     // webhook, email or telegram
	Target   string    `json:"target"`   // host of a webhook, addresses, user
	Status   string    `json:"status"`
	Attempts int       `json:"attempts"`
	Error    *Failure  `json:"error,omitempty"`
	At       time.Time `json:"at"`
}

// SchedulePage is a part of a list of schedules, by name.
type SchedulePage struct {
	Schedules []Schedule
	Next      string
}

// ScheduleRunPage is a part of a list of runs, newest first.
type ScheduleRunPage struct {
	Runs []ScheduleRun
	Next string
}

// ScheduleTriggered is a run that somebody began by hand.
type ScheduleTriggered struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"` // as in [ScheduleRun]
	Joined     bool   `json:"joined"` // it had begun already, under the same idempotency key
}

// StoredSchedule is a schedule with whose rights it runs.
type StoredSchedule struct {
	Schedule

	Principal Principal
}

// ScheduleEnd is how a run ended.
type ScheduleEnd struct {
	Tenant    string
	RunID     string
	Status    string
	Output    string // bounded
	Digest    string // of the whole answer, to see whether it changed
	ResultRef string
	Error     *Failure
	Quiet     bool
	EndedAt   time.Time
	Notices   []ScheduleNotice // to be sent, whatever the run before was
	IfChanged []ScheduleNotice // to be sent if this end is not that of the run before
	Keep      int              // finished runs of the schedule that stay
}
