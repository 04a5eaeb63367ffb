package erasure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// The permissions of erasures. They apply to the whole tenant, not to single resources.
const (
	ActionWrite agent.Action = "erasures.write"
	ActionRead  agent.Action = "erasures.read"
)

// Status is the state of an erasure.
type Status string

// The statuses; the last three are final.
const (
	StatusRequested  Status = "requested" // recorded; its workflow has not begun
	StatusRunning    Status = "running"
	StatusCompleted  Status = "completed"  // nothing is left, or it was a dry run
	StatusIncomplete Status = "incomplete" // the report says what is left and why; another erasure removes it
	StatusFailed     Status = "failed"     // it broke off; another erasure removes what is left
)

// Final reports whether the erasure has ended.
func (s Status) Final() bool {
	return s == StatusCompleted || s == StatusIncomplete || s == StatusFailed
}

// Bounds of a request.
const (
	MaxUserID = 1024 // bytes, as for the user id of a turn
	MaxReason = 1000
	SaltBytes = 16
)

// Request asks for an erasure.
type Request struct {
	UserID string `json:"user_id"`
	Tenant string `json:"tenant,omitempty"`
	Reason string `json:"reason"` // kept in the report for ever: it must not name the user
	DryRun bool   `json:"dry_run,omitempty"`
}

// Validate returns an error that names the wrong field.
func (r *Request) Validate() error {
	switch {
	case r.UserID == "":
		return agent.Invalid("user_id", "is missing")
	case len(r.UserID) > MaxUserID:
		return agent.Invalid("user_id", "is %d bytes, at most %d", len(r.UserID), MaxUserID)
	case strings.ContainsRune(r.UserID, 0):
		return agent.Invalid("user_id", "has a zero byte")
	case strings.TrimSpace(r.Reason) == "":
		return agent.Invalid("reason", "is missing: the report says why something was erased")
	case len(r.Reason) > MaxReason:
		return agent.Invalid("reason", "is %d bytes, at most %d", len(r.Reason), MaxReason)
	case strings.ContainsRune(r.Reason, 0):
		return agent.Invalid("reason", "has a zero byte")
	case Names(r.Reason, r.UserID):
		return agent.Invalid("reason", "names the user: it is kept for ever, with the report; name a ticket instead")
	}
	return nil
}

// Names reports whether a text contains a user's id as a whole word: "user/ann" contains ann, "joann" and "ann-2" do not.
func Names(text, userID string) bool {
	isWordRune := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@+-", r) }
	for from := 0; userID != ""; {
		at := strings.Index(text[from:], userID)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:from+at])
		rest := text[from+at+len(userID):]
		after, size := utf8.DecodeRuneInString(rest)
		next, _ := utf8.DecodeRuneInString(rest[size:])
		if !isWordRune(before) && before != '.' && !isWordRune(after) && (after != '.' || !unicode.IsLetter(next) && !unicode.IsDigit(next)) {
			return true
		}
		_, size = utf8.DecodeRuneInString(text[from+at:])
		from += at + size
	}
	return false
}

// Erasure is a request and its outcome.
type Erasure struct {
	ID          string     `json:"erasure_id"`
	Tenant      string     `json:"tenant"`
	Status      Status     `json:"status"`
	DryRun      bool       `json:"dry_run"`
	Subject     string     `json:"subject"` // see [Subject]
	Salt        string     `json:"salt"`    // hex
	RequestedBy string     `json:"requested_by"`
	Reason      string     `json:"reason"`
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	Error       string     `json:"error,omitempty"` // if it failed
	Report      *Report    `json:"report,omitempty"`
	Digest      string     `json:"digest,omitempty"`       // of the report when it was stored
	AuditDigest string     `json:"audit_digest,omitempty"` // the digest in the audit trail; empty: the record has expired, or was never written
}

// Page is a page of erasures, newest first, without their reports.
type Page struct {
	Erasures []Erasure `json:"erasures"`
	Next     string    `json:"next_page_token"`
}

// Subject returns the hash that replaces a user's id: HMAC-SHA256 of tenant and id in hex, keyed with the erasure's salt.
func Subject(salt []byte, tenant, userID string) string {
	h := hmac.New(sha256.New, salt)
	h.Write([]byte(tenant + "\x00" + userID))
	return hex.EncodeToString(h.Sum(nil))
}

// Pseudonym returns the name that replaces the user's id in rows that stay: in the ledger and in the audit trail.
func Pseudonym(subject string) string { return "erased-" + subject[:min(len(subject), 16)] }

// WorkflowID returns the id of an erasure's workflow.
func WorkflowID(tenant, id string) string { return "erasure/" + tenant + "/" + id }

// Object is an object of the blob store.
type Object struct {
	Ref   string // cas://sha256:<hex>
	Bytes int64  // uncompressed
}

// The kinds of marks: what an erasure found to belong to the user. Marks are deleted when it ends.
const (
	MarkTurn      = "turn"      // its id; also of its child turns
	MarkSession   = "session"   // its id: only the user took part
	MarkShared    = "shared"    // its id: others took part too
	MarkRun       = "run"       // of a defined workflow
	MarkChat      = "chat"      // channel and chat
	MarkSchedule  = "schedule"  // its name
	MarkExecution = "execution" // workflow id
	MarkContent   = "content"   // reference
)
