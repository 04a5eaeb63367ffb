package agent

import "time"

// TurnQuery finds turns of a tenant, the newest first. Empty fields do not filter.
type TurnQuery struct {
	Tenant    string
	Status    []string // [StateQueued], [StateRunning], [StateWaiting] or one of [TurnStatus]; any of them
	Agent     string
	UserID    string
	Channel   string
	SessionID SessionID
	RerunOf   TurnID    // the turn whose reruns are wanted
	Since     time.Time // when the turn was accepted; Until is exclusive
	Until     time.Time
	Text      string // part of the summary, in upper or lower case
	Limit     int    // of a page: 1 to [MaxFound]; 0 is 50
	After     string // Next of the page before
}

// MaxFound is how many turns or sessions a page has at most.
const MaxFound = 200

// TurnPage is a part of a list of turns. Next is empty on the last page. A page may be shorter than its limit, or empty, and not the last.
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
	ParentID   TurnID     `json:"parent_turn_id,omitempty"` // the turn that delegated to this one
	Status     string     `json:"status"`                   // as in [TurnQuery]
	StopReason StopReason `json:"stop_reason,omitempty"`
	ErrorType  string     `json:"error_type,omitempty"` // of a turn that did not complete
	Mode       Mode       `json:"mode,omitempty"`
	Model      string     `json:"model,omitempty"` // that answered; of a turn that has not ended, the one that the request names
	StartedAt  time.Time  `json:"started_at"`      // when it was accepted
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Usage      *Usage     `json:"usage,omitempty"` // of a turn that has ended
	RerunOf    TurnID     `json:"rerun_of,omitempty"`
	FromStep   int        `json:"from_step,omitempty"` // of a rerun: the first step that was not taken over
	Summary    string     `json:"summary"`             // the beginning of the first user message; empty if it has no text, or is not kept any longer
}

// SessionQuery finds sessions of a tenant, the one with the newest turn first. Empty fields do not filter. All but SessionID and Text are about
// the newest turn.
type SessionQuery struct {
	Tenant    string
	Status    []string // as in [TurnQuery]
	Agent     string
	UserID    string
	Channel   string
	SessionID SessionID
	Since     time.Time // when the newest turn was accepted; Until is exclusive
	Until     time.Time
	Text      string // part of the title or the summary, in upper or lower case
	Limit     int    // of a page: 1 to [MaxFound]; 0 is 50
	After     string // Next of the page before
}

// SessionPage is a part of a list of sessions. Next is empty on the last page. A page may be shorter than its limit, or empty, and not the
// last.
type SessionPage struct {
	Sessions []SessionSummary `json:"sessions"`
	Next     string           `json:"next"`
}

// SessionSummary is a session in a list. Agent, UserID, Channel and Status are those of its newest turn.
type SessionSummary struct {
	SessionID  SessionID `json:"session_id"`
	Title      string    `json:"title,omitempty"` // that somebody gave it
	Summary    string    `json:"summary"`         // of the first turn that is kept, as in [TurnSummary]
	Turns      int64     `json:"turns"`           // that it has had, whether or not they are kept
	Agent      string    `json:"agent"`
	UserID     string    `json:"user_id,omitempty"`
	Channel    string    `json:"channel,omitempty"`
	Status     string    `json:"status"`
	LastTurnID TurnID    `json:"last_turn_id"`
	ForkedFrom SessionID `json:"forked_from,omitempty"` // the session whose transcript it begins with a copy of
	CreatedAt  time.Time `json:"created_at"`
	ActiveAt   time.Time `json:"last_active_at"` // when its newest turn ended, or was accepted if it has not ended
}
