package agent

import (
	"encoding/json"
	"time"
)

// WorkflowDefinition is a process that people and agents describe as a graph and change by patches: the document
// that a JSON Patch is applied to. It is run by the workflow DefinedWorkflow.
type WorkflowDefinition struct {
	Description string             `json:"description,omitempty"`
	Nodes       []WorkflowNode     `json:"nodes"`
	Edges       []WorkflowEdge     `json:"edges"`
	Schedules   []WorkflowSchedule `json:"schedules,omitempty"`
}

// The types of nodes.
const (
	WorkflowTask      = "task"      // config.action says what is done: email, webhook or pipeline
	WorkflowAgent     = "agent"     // config.agent is asked config.message
	WorkflowCondition = "condition" // expr, in CEL, over what came in
	WorkflowTimer     = "timer"     // config.duration passes: "90s", "24h"
)

// WorkflowNode is one step.
type WorkflowNode struct {
	ID     string          `json:"id"` // 1 to 128 of A-Z a-z 0-9 . _ -
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Expr   string          `json:"expr,omitempty"`   // condition
	Config json.RawMessage `json:"config,omitempty"` // an object, by type
}

// WorkflowEdge leads from one node to another.
type WorkflowEdge struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Condition string `json:"condition,omitempty"` // from a condition: "true" or "false"; empty: always
}

// WorkflowSchedule starts runs by itself; one of Cron and IntervalSec is given.
type WorkflowSchedule struct {
	ID          string          `json:"id"`
	Cron        string          `json:"cron,omitempty"`
	IntervalSec int64           `json:"interval_sec,omitempty"`
	TimeZone    string          `json:"time_zone,omitempty"` // IANA; empty: UTC
	Input       json.RawMessage `json:"input,omitempty"`     // of its runs
	Paused      bool            `json:"paused,omitempty"`
}

// WorkflowKey names a definition.
type WorkflowKey struct {
	Tenant string `json:"tenant"`
	Owner  string `json:"workflow_owner"` // as a document says; [DefaultWorkflowOwner] where nobody is named
	Tag    string `json:"workflow_tag"`
}

// DefaultWorkflowOwner owns what is made without naming an owner.
const DefaultWorkflowOwner = "default"

// StoredWorkflow is one version of a definition. Versions are never changed.
type StoredWorkflow struct {
	WorkflowKey

	Version    int64           `json:"version"`    // 1 for the first
	Definition json.RawMessage `json:"definition"` // a [WorkflowDefinition], canonical JSON
	Hash       string          `json:"hash"`       // sha256:<hex> of Definition
	PatchID    string          `json:"patch_id"`   // of the change that made this version
	Deleted    bool            `json:"deleted,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
	UpdatedBy  string          `json:"updated_by"`
}

// WorkflowPatchRequest changes a definition by a JSON Patch (RFC 6902).
type WorkflowPatchRequest struct {
	WorkflowKey                 // Owner empty: the one definition of that tag, conflict when several owners have one
	Operations  json.RawMessage `json:"operations"` // an array
	Description string          `json:"description,omitempty"`
	BaseVersion int64           `json:"base_version,omitempty"` // conflict if this is not the newest version; 0: do not check
	By          string          `json:"by,omitempty"`
	Idempotency string          `json:"-"`                   // requests with the same key change once and have the same answer; empty: none
	DryRun      bool            `json:"dry_run,omitempty"`   // return the result without storing it
	Revert      string          `json:"revert_of,omitempty"` // the patch that this one reverts
}

// WorkflowPatchResult is the outcome of a patch.
type WorkflowPatchResult struct {
	WorkflowKey

	PatchID     string `json:"patch_id"`
	Version     int64  `json:"version"`
	BaseVersion int64  `json:"base_version"` // the version that it was applied to; 0: there was none
	Hash        string `json:"hash,omitempty"`
	Unchanged   bool   `json:"unchanged,omitempty"` // the patch changed nothing: there is no new version
}

// WorkflowPatch is one entry of a definition's history.
type WorkflowPatch struct {
	WorkflowPatchResult

	Operations  json.RawMessage `json:"operations"` // null for a whole definition that was put
	Description string          `json:"description,omitempty"`
	Revert      string          `json:"revert_of,omitempty"`
	At          time.Time       `json:"at"`
	By          string          `json:"by"`
}

// WorkflowCommit stores the next version of a definition.
type WorkflowCommit struct {
	Stored      StoredWorkflow // Version is Base + 1
	Base        int64          // the version that was changed; [CodeConflict] if it is no longer the newest
	Operations  json.RawMessage
	Description string
	Revert      string
	Idempotency string
	RequestHash string // of the request with the key Idempotency: [CodeConflict] for another request with the same key
}

// WorkflowQuery lists definitions of a tenant, newest versions only.
type WorkflowQuery struct {
	Tenant string
	Owner  string // empty: all
	Tag    string // empty: all
	Page
}

// WorkflowPage is a part of a list.
type WorkflowPage struct {
	Workflows []StoredWorkflow `json:"workflows"`
	Next      string           `json:"next_page_token"`
}

// WorkflowPatchPage is a part of a history, newest first.
type WorkflowPatchPage struct {
	Patches []WorkflowPatch `json:"patches"`
	Next    string          `json:"next_page_token"`
}
