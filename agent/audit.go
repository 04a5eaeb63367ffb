package agent

import (
	"encoding/json"
	"time"
)

// The outcomes of audited actions.
const (
	AuditAllowed = "allowed"
	AuditDenied  = "denied"
	AuditFailed  = "failed" // allowed, but it failed
)

// AuditRecord is an action in the audit trail, attempted or done. It never has secrets or the content of conversations.
type AuditRecord struct {
	ID         int64           `json:"id"` // ascending
	At         time.Time       `json:"at"`
	Tenant     string          `json:"tenant"` // whose data was acted on; empty if unknown
	Subject    string          `json:"subject,omitempty"`
	Method     string          `json:"method"`               // of the principal; empty: the runtime itself
	Credential string          `json:"credential,omitempty"` // of the principal
	Action     Action          `json:"action"`
	Resource   string          `json:"resource,omitempty"` // turn/<id>, key/<id>, agent/<name>, …
	Outcome    string          `json:"outcome"`
	Channel    string          `json:"channel,omitempty"`
	RequestID  string          `json:"request_id,omitempty"`
	Remote     string          `json:"remote,omitempty"` // address of the peer
	Detail     json.RawMessage `json:"detail,omitempty"` // an object: mode of a turn, error code, decision, …
}

// AuditQuery selects records of the audit trail, newest first.
type AuditQuery struct {
	Tenant  string // exact; [AnyTenant]: all tenants
	Subject string // empty: all
	Action  string // an action, or a prefix of actions and "*"; empty: all
	Outcome string // empty: all
	Since   time.Time
	Before  int64 // only records with a smaller ID; 0: all
	Limit   int   // 0: 50; at most 500
}

// AuditPage is a page of the trail.
type AuditPage struct {
	Records []AuditRecord `json:"records"`
	Next    int64         `json:"next,omitempty"` // Before of the next page; 0 if there is none
}
