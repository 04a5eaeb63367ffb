package agent

import (
	"encoding/json"
	"time"
)

// The kinds of schedules. The kind is also the channel of the turns.
const (
	ScheduleRuns      = "scheduled" // runs an agent periodically
	ScheduleHeartbeat = "heartbeat" // runs an agent that reports only if there is something to report, and otherwise answers [HeartbeatQuiet]
)

// HeartbeatQuiet is the default of [Schedule].Quiet.
const HeartbeatQuiet = "HEARTBEAT_OK"

// The values of [Schedule].Overlap: what happens when a run is due while the previous one is running.
const (
	OverlapSkip        = "skip" // the default
	OverlapBufferOne   = "buffer_one"
	OverlapBufferAll   = "buffer_all"
	OverlapCancelOther = "cancel_other"
	OverlapTerminate   = "terminate_other" // the turn of the previous run continues
	OverlapAllowAll    = "allow_all"
)

// Schedule runs an agent periodically. Each run is a turn in a new session. At least one of Cron and Every must be set. Durations are texts such as
// 90s, 15m or 24h.
type Schedule struct {
	Name        string `json:"name"`             // 1 to 64 of A-Z a-z 0-9 . _ -
	Tenant      string `json:"tenant,omitempty"` // that of the credential
	Description string `json:"description,omitempty"`

	Kind    string `json:"kind,omitempty"`  // scheduled or heartbeat; empty: scheduled
	Agent   string `json:"agent,omitempty"` // empty: chosen by routing for each run
	Message string `json:"message"`
	Quiet   string `json:"quiet,omitempty"` // heartbeat: the answer that causes no notification; empty: [HeartbeatQuiet]

	Cron          []string   `json:"cron,omitempty"`            // five fields, six with a year, seven with seconds and a year; or @daily etc.
	Every         string     `json:"every,omitempty"`           // counted from 1970-01-01 00:00 UTC
	TimeZone      string     `json:"time_zone,omitempty"`       // IANA time zone of Cron; empty: UTC
	Overlap       string     `json:"overlap,omitempty"`         // empty: skip
	Jitter        string     `json:"jitter,omitempty"`          // maximum random delay of each run
	CatchUpWindow string     `json:"catch_up_window,omitempty"` // maximum delay of a run after an outage; empty: 1m
	StartAt       *time.Time `json:"start_at,omitempty"`
	EndAt         *time.Time `json:"end_at,omitempty"`

	Model        string          `json:"model,omitempty"`   // a profile of the plan; empty: the default of the plan
	UserID       string          `json:"user_id,omitempty"` // the user of the turns
	Limits       *Limits         `json:"limits,omitempty"`  // can only lower the limits of the plan
	Metadata     map[string]any  `json:"metadata,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Notify       []Notification  `json:"notify,omitempty"`

	Approvals ApprovalPolicy `json:"approvals,omitempty"` // wait (default), refuse, or a list of tools that need no approval

	Paused bool   `json:"paused,omitempty"`
	Note   string `json:"note,omitempty"` // why it is paused or not

	// Requests may have the following fields, but they are ignored.
	Revision  int64       `json:"revision,omitempty"`   // increases with every change
	CreatedBy string      `json:"created_by,omitempty"` // subject or credential
	UpdatedBy string      `json:"updated_by,omitempty"` // the runs have the rights of this principal
	CreatedAt *time.Time  `json:"created_at,omitempty"`
	UpdatedAt *time.Time  `json:"updated_at,omitempty"`
	Next      []time.Time `json:"next,omitempty"` // the next runs according to Temporal; only if a single schedule is read
}

// The values of [Notification].On.
const (
	NotifyAlways  = "always" // default; also for cancelled runs
	NotifySuccess = "success"
	NotifyFailure = "failure" // failed and skipped runs
	NotifyChange  = "change"  // runs whose status or answer differs from the previous run
)

// Notification is a recipient that is notified of the end of runs. Exactly one of Webhook, Email and Telegram is set.
type Notification struct {
	On       string        `json:"on,omitempty"` // empty: always
	Webhook  *HookTarget   `json:"webhook,omitempty"`
	Email    *MailTarget   `json:"email,omitempty"`
	Telegram *PersonTarget `json:"telegram,omitempty"`
}

// HookTarget is a URL that receives a POST.
type HookTarget struct {
	URL  string `json:"url"`
	Auth string `json:"auth,omitempty"` // an auth profile of the catalog; may be empty
}

// MailTarget is a list of mail addresses.
type MailTarget struct {
	To []string `json:"to"`
}

// PersonTarget is a user who receives a message in the linked chat.
type PersonTarget struct {
	User string `json:"user"`
}

// The statuses of a run in addition to [TurnStatus].
const (
	ScheduleRunning = "running"
	ScheduleSkipped = "skipped" // limits did not admit the run in time
)

// ScheduleRun is a run of a schedule.
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
	Quiet     bool      `json:"quiet,omitempty"` // a heartbeat that had nothing to report

	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`

	Notices []ScheduleNotice `json:"notices,omitempty"`
}

// The statuses of a notice.
const (
	NoticePending = "pending"
	NoticeSent    = "sent"
	NoticeFailed  = "failed" // it may be retried until the run's workflow ends
)

// ScheduleNotice is the state of a notification of a run.
type ScheduleNotice struct {
	Position int       `json:"position"` // index in Notify of the schedule
	Kind     string    `json:"kind"`     // webhook, email or telegram
	Target   string    `json:"target"`   // host of a webhook, addresses, user
	Status   string    `json:"status"`
	Attempts int       `json:"attempts"`
	Error    *Failure  `json:"error,omitempty"`
	At       time.Time `json:"at"`
}

// SchedulePage is a page of schedules, sorted by name.
type SchedulePage struct {
	Schedules []Schedule
	Next      string
}

// ScheduleRunPage is a page of runs, newest first.
type ScheduleRunPage struct {
	Runs []ScheduleRun
	Next string
}

// ScheduleTriggered is a run that was started by hand.
type ScheduleTriggered struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"` // as in [ScheduleRun]
	Joined     bool   `json:"joined"` // it already existed under the same idempotency key
}

// StoredSchedule is a schedule and the principal whose rights its runs have.
type StoredSchedule struct {
	Schedule

	Principal Principal
}

// ScheduleEnd is the end of a run.
type ScheduleEnd struct {
	Tenant    string
	RunID     string
	Status    string
	Output    string // truncated
	Digest    string // of the complete answer, to detect changes
	ResultRef string
	Error     *Failure
	Quiet     bool
	EndedAt   time.Time
	Notices   []ScheduleNotice // to send
	IfChanged []ScheduleNotice // to send if status or answer differ from the previous run
	Keep      int              // number of finished runs of the schedule to keep
}
