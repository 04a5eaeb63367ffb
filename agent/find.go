package agent

import "time"

// TurnQuery selects turns of a tenant, newest first. Empty fields match all.
type TurnQuery struct {
	Tenant    string
	Status    []string // any of [StateQueued], [StateRunning], [StateWaiting] and the values of [TurnStatus]
	Agent     string
	UserID    string
	Channel   string
	SessionID SessionID
	RerunOf   TurnID    // selects the reruns of this turn
	Since     time.Time // when the turn was accepted; Until is exclusive
	Until     time.Time
	Text      string // part of the summary, ignoring case
	Limit     int    // of a page: 1 to [MaxFound]; 0 is 50
	After     string // Next of the page before
}

// MaxFound is the maximum number of turns or sessions on a page.
const MaxFound = 200

// TurnPage is a page of turns. Next is empty on the last page. A page before the last may have fewer turns than the limit, or none.
type TurnPage struct {
	Turns []TurnSummary `json:"turns"`
	Next  string        `json:"next"`
}

// TurnSummary is a turn in a list.
type TurnSummary struct {
	TurnID     TurnID     `json:"turn_id"`
	SessionID  SessionID  `json:"session_id"`
	Agent      string     `json:"agent"`
	UserID     string     `json:"user_id,omitempty"`
	Channel    string     `json:"channel,omitempty"`
	ParentID   TurnID     `json:"parent_turn_id,omitempty"` // the turn that delegated to this turn
	Status     string     `json:"status"`                   // as in [TurnQuery]
	StopReason StopReason `json:"stop_reason,omitempty"`
	ErrorType  string     `json:"error_type,omitempty"` // of a turn that did not complete
	Mode       Mode       `json:"mode,omitempty"`
	Model      string     `json:"model,omitempty"` // the model that answered; before the end of the turn, the model in the request
	StartedAt  time.Time  `json:"started_at"`      // when the turn was accepted
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Usage      *Usage     `json:"usage,omitempty"` // of a turn that has ended
	RerunOf    TurnID     `json:"rerun_of,omitempty"`
	FromStep   int        `json:"from_step,omitempty"` // of a rerun: the first step that was not reused
	Summary    string     `json:"summary"`             // the beginning of the first user message; empty if it has no text or is no longer kept
}

// SessionQuery selects sessions of a tenant, the one with the newest turn first. Empty fields match all. Fields other than SessionID and Text apply to
// the newest turn of a session.
type SessionQuery struct {
	Tenant    string
	Status    []string // as in [TurnQuery]
	Agent     string
	UserID    string
	Channel   string
	SessionID SessionID
	Since     time.Time // when the newest turn was accepted; Until is exclusive
	Until     time.Time
	Text      string // part of the title or the summary, ignoring case
	Limit     int    // of a page: 1 to [MaxFound]; 0 is 50
	After     string // Next of the page before
}

// SessionPage is a page of sessions. Next is empty on the last page. A page before the last may have fewer sessions than the limit, or none.
type SessionPage struct {
	Sessions []SessionSummary `json:"sessions"`
	Next     string           `json:"next"`
}

// SessionSummary is a session in a list. Agent, UserID, Channel and Status are those of its newest turn.
type SessionSummary struct {
	SessionID  SessionID `json:"session_id"`
	Title      string    `json:"title,omitempty"` // set by a user
	Summary    string    `json:"summary"`         // of the oldest kept turn, as in [TurnSummary]
	Turns      int64     `json:"turns"`           // all turns, also those that are no longer kept
	Agent      string    `json:"agent"`
	UserID     string    `json:"user_id,omitempty"`
	Channel    string    `json:"channel,omitempty"`
	Status     string    `json:"status"`
	LastTurnID TurnID    `json:"last_turn_id"`
	ForkedFrom SessionID `json:"forked_from,omitempty"` // the session that this is a copy of
	CreatedAt  time.Time `json:"created_at"`
	ActiveAt   time.Time `json:"last_active_at"` // when the newest turn ended, or was accepted if it has not ended
}
