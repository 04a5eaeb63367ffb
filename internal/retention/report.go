package retention

import "time"

// Report says what is kept and for how long, and how the sweeps stand.
type Report struct {
	Schedule Status         `json:"schedule"`
	Tenants  []TenantReport `json:"tenants"`
	Next     string         `json:"next_page_token"`
}

// Status is how the schedule stands in Temporal.
type Status struct {
	ID        string     `json:"id"`
	Scheduled bool       `json:"scheduled"` // false: there is none, and nothing is swept
	Every     string     `json:"every"`
	Paused    bool       `json:"paused"`
	Note      string     `json:"note"`
	Running   bool       `json:"running"`
	LastRun   *time.Time `json:"last_run"`
	NextRun   *time.Time `json:"next_run"` // null while it is paused
}

// TenantReport is what one tenant has.
type TenantReport struct {
	Tenant string       `json:"tenant"`
	Kinds  []KindReport `json:"kinds"`
}

// KindReport is what there is of a kind.
type KindReport struct {
	Kind   string     `json:"kind"`
	Keep   string     `json:"keep"` // a duration; 0s: for ever
	Own    bool       `json:"own"`  // of this tenant alone
	Unit   string     `json:"unit"` // turns that still have it, or rows
	Stored int64      `json:"stored"`
	More   bool       `json:"more"` // there are more than were counted
	Due    int64      `json:"due"`  // of those counted, what the next sweep may remove
	Oldest *time.Time `json:"oldest"`
}

// Started names the run of a sweep.
type Started struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	Joined     bool   `json:"joined"` // it was at work already
}
