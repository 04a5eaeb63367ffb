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
	StatusRequested  Status = "requested" // the workflow has not begun
	StatusRunning    Status = "running"
	StatusCompleted  Status = "completed"  // nothing is left, or it was a dry run
	StatusIncomplete Status = "incomplete" // the report says which data is left and why; another erasure removes it
	StatusFailed     Status = "failed"     // another erasure removes the data that is left
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
	Reason string `json:"reason"` // stays in the report, so it must not name the user
	DryRun bool   `json:"dry_run,omitempty"`
}

// Validate returns an error that names the invalid field.
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
	for offset := 0; userID != ""; {
		i := strings.Index(text[offset:], userID)
		if i < 0 {
			return false
		}
		offset += i
		if !endsWithinWord(text[:offset]) && !beginsWithinWord(text[offset+len(userID):]) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return false
}

// endsWithinWord reports whether a word that text ends with may go on after it.
func endsWithinWord(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	return last == '.' || isWordRune(last)
}

// beginsWithinWord reports whether text may continue a word before it. A dot does so only before a letter or digit; else it ends a sentence.
func beginsWithinWord(text string) bool {
	first, size := utf8.DecodeRuneInString(text)
	second, _ := utf8.DecodeRuneInString(text[size:])
	return isWordRune(first) || first == '.' && (unicode.IsLetter(second) || unicode.IsDigit(second))
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@+-", r)
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
	AuditDigest string     `json:"audit_digest,omitempty"` // the digest in the audit trail; empty if the record has expired or was not written
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

// Pseudonym returns the name that replaces the user's id in rows of the ledger and the audit trail, which stay.
func Pseudonym(subject string) string { return "erased-" + subject[:min(len(subject), 16)] }

// WorkflowID returns the id of an erasure's workflow.
func WorkflowID(tenant, id string) string { return "erasure/" + tenant + "/" + id }

// Object is an object of the blob store.
type Object struct {
	Ref   string // cas://sha256:<hex>
	Bytes int64  // uncompressed
}

// The kinds of marks. A mark names data of the user that an erasure has found, and is deleted when the erasure ends.
const (
	MarkTurn      = "turn"      // id of a turn or child turn
	MarkSession   = "session"   // id of a session of this user only
	MarkShared    = "shared"    // id of a session of several users
	MarkRun       = "run"       // run of a defined workflow
	MarkChat      = "chat"      // channel and chat
	MarkSchedule  = "schedule"  // name of a schedule
	MarkExecution = "execution" // workflow id
	MarkContent   = "content"   // reference to content
)
