package agent

import (
	"encoding/json"
	"time"
)

// The outcomes of what is audited.
const (
	AuditAllowed = "allowed"
	AuditDenied  = "denied"
	AuditFailed  = "failed" // allowed, and refused for another reason or broken
)

// AuditRecord is one action, done or tried, of the audit trail. It never holds a secret or the content of a conversation.
type AuditRecord struct {
	ID         int64           `json:"id"` // ascending
	At         time.Time       `json:"at"`
	Tenant     string          `json:"tenant"` // that was acted in; empty: none was named
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

// AuditQuery asks for the trail, newest first.
type AuditQuery struct {
	Tenant  string // exact; [AnyTenant]: every one
	Subject string // empty: of any
	Action  string // an action, or the beginning of one and "*"; empty: any
	Outcome string // empty: any
	Since   time.Time
	Before  int64 // records with a smaller id; 0: the newest
	Limit   int   // 0: 50; at most 500
}

// AuditPage is a page of the trail.
type AuditPage struct {
	Records []AuditRecord `json:"records"`
	Next    int64         `json:"next,omitempty"` // pass as Before for the next page; 0: there is none
}
