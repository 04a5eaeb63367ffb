package erasure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Kind is the outcome for one kind of data, usually a table.
type Kind struct {
	Name      string `json:"name"`
	Found     int64  `json:"found"`          // in a dry run: rows that would be removed or unnamed
	Removed   int64  `json:"removed"`        // rows
	Unnamed   int64  `json:"unnamed"`        // rows that stay, without the user's name and text
	Kept      string `json:"kept,omitempty"` // why rows of this kind stay
	Remaining int64  `json:"remaining"`      // rows that a separate query still found at the end
	Left      string `json:"left,omitempty"` // why rows remain
}

// Executions counts the workflow executions whose histories contained text of the user.
type Executions struct {
	Found   int64 `json:"found"`
	Deleted int64 `json:"deleted"`
}

// Content counts objects of the blob store.
type Content struct {
	Found   int64 `json:"found"`   // objects to which the user's turns referred
	Removed int64 `json:"removed"` // objects
	Bytes   int64 `json:"bytes"`   // size of the removed objects, uncompressed
	Shared  int64 `json:"shared"`  // objects that stay because others of the tenant refer to the same content
	Pending int64 `json:"pending"` // objects that were just stored again, and are removed later unless something refers to them
}

// Report has the data that was removed, the data that stays and why, and the result of a final check.
type Report struct {
	ErasureID   string     `json:"erasure_id"`
	Tenant      string     `json:"tenant"`
	Subject     string     `json:"subject"`
	Salt        string     `json:"salt"`
	Pseudonym   string     `json:"pseudonym"`
	RequestedBy string     `json:"requested_by"`
	Reason      string     `json:"reason"`
	DryRun      bool       `json:"dry_run"`
	Status      Status     `json:"status"`
	StartedAt   time.Time  `json:"started_at"` // microseconds, UTC
	FinishedAt  time.Time  `json:"finished_at"`
	Rounds      int        `json:"rounds"` // searches for data; more than one if the user created data meanwhile
	Turns       int64      `json:"turns"`
	Sessions    int64      `json:"sessions"` // sessions of this user only
	Shared      int64      `json:"shared"`   // sessions of several users, which stay
	Kinds       []Kind     `json:"kinds"`
	Executions  Executions `json:"executions"`
	Content     Content    `json:"content"`
	Kept        []Kind     `json:"kept"` // kinds that contain no data of users, with the reason
}

// Remaining returns the number of rows that the final check still found.
func (r *Report) Remaining() int64 {
	var n int64
	for i := range r.Kinds {
		n += r.Kinds[i].Remaining
	}
	return n
}

// Digest returns sha256:<hex> of the report's JSON, with fields in the order of this type and without spaces.
func (r *Report) Digest() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", &agent.Error{Code: agent.CodeInternal, Op: "digest of a report", Err: err}
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Proof is the result of [Verify].
type Proof struct {
	Digest  string   `json:"digest"`  // of the report as stored now
	Faults  []string `json:"faults"`  // mismatches; empty: the report is genuine
	Subject *bool    `json:"subject"` // whether the report is about the user of the call; nil if it names no user
	Trail   bool     `json:"trail"`   // whether the audit trail has the same digest
}

// Verify compares the report of e with its digest, with the digest in the audit trail, with the erasure and, if userID is not empty, with that user.
// The error is [agent.CodeConflict] if there is no report yet.
func Verify(e *Erasure, userID string) (Proof, error) {
	p := Proof{Faults: []string{}}
	if e.Report == nil {
		return p, agent.Errorf(agent.CodeConflict, "", "erasure %q is %s and has no report", e.ID, e.Status)
	}
	r := e.Report
	var err error
	if p.Digest, err = r.Digest(); err != nil {
		return p, err
	}
	p.addFault(p.Digest != e.Digest, "the report is not the one that its digest was made of")
	p.addFault(e.AuditDigest != "" && p.Digest != e.AuditDigest, "the report is not the one that the audit trail has the digest of")
	p.addFault(e.AuditDigest == "", "the audit trail has no digest of it: its record has expired, or was never written")
	p.addFault(r.ErasureID != e.ID || r.Tenant != e.Tenant || r.Subject != e.Subject || r.Salt != e.Salt || r.DryRun != e.DryRun || r.Status != e.Status ||
		r.RequestedBy != e.RequestedBy || r.Reason != e.Reason, "the report is not this erasure's")
	p.addFault(r.Status == StatusCompleted && !r.DryRun && r.Remaining() > 0, "it says that nothing is left, but counts what is")
	p.Trail = p.Digest == e.AuditDigest
	if userID != "" {
		salt, err := hex.DecodeString(r.Salt)
		isUsers := err == nil && hmac.Equal([]byte(Subject(salt, r.Tenant, userID)), []byte(r.Subject))
		p.Subject = &isUsers
		p.addFault(!isUsers, "the report is about another user")
	}
	return p, nil
}

// addFault adds a fault if a condition is true.
func (p *Proof) addFault(isFault bool, text string) {
	if isFault {
		p.Faults = append(p.Faults, text)
	}
}
