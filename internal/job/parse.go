package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

var versionPattern = regexp.MustCompile(`^1(\.[0-9]{1,9}){0,2}$`)

// bom is the byte order mark that some Windows tools put before a text.
const bom = "\xef\xbb\xbf"

// Parse parses a message. Its error is an [agent.Error] with [agent.CodeInvalid], or [agent.CodeOverflow] for sizes, and with the field as a path
// such as context.previous_results[2].node_id. It checks the version first, because another one may have other fields. null is the same as no
// field. So is a created_at that is no time, because nothing here depends on it.
func Parse(raw []byte) (Job, error) {
	raw = bytes.TrimPrefix(raw, []byte(bom))
	if err := checkShape(raw); err != nil {
		return Job{}, err
	}
	if err := checkVersion(raw); err != nil {
		return Job{}, err
	}
	var m lenient[message]
	if err := strictjson.Decode(raw, &m); err != nil {
		return Job{}, err
	}
	j := m.v.Job
	j.TimeoutSec = DefaultTimeoutSec
	if m.v.TimeoutSec != nil {
		j.TimeoutSec = int(*m.v.TimeoutSec)
	}
	j.RetryCount = int(m.v.RetryCount)
	j.CreatedAt = parseTime(m.v.CreatedAt)
	if err := j.normalize(); err != nil {
		return Job{}, err
	}
	if err := j.validate(); err != nil {
		return Job{}, err
	}
	return j, nil
}

// checkVersion checks the version of a message and nothing else.
func checkVersion(raw []byte) error {
	var named lenient[struct {
		Version string `json:"version"`
	}]
	if err := strictjson.Decode(raw, &named); err != nil {
		return err
	}
	switch v := named.v.Version; {
	case v == "":
		return agent.Invalid("version", "is missing: this service reads 1.x")
	case !versionPattern.MatchString(v):
		return agent.Invalid("version", "%.64q is not spoken here: this service reads 1.x", v)
	default:
		return nil
	}
}

// message is an encoded job. It distinguishes absent fields from zero.
type message struct {
	Job

	TimeoutSec *wholeNumber   `json:"timeout_sec"`
	RetryCount wholeNumber    `json:"retry_count"`
	CreatedAt  jsontext.Value `json:"created_at"`
}

// wholeNumber is an int that may be encoded as 300.0, as languages do that have only floats.
type wholeNumber int

// UnmarshalJSONFrom implements [jsonv2.UnmarshalerFrom].
func (w *wholeNumber) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '0' {
		return jsonv2.UnmarshalDecode(d, (*int)(w)) // null, or an error
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return &jsonv2.SemanticError{JSONKind: '0', JSONValue: raw.Clone(), GoType: reflect.TypeFor[int](), Err: strconv.ErrSyntax}
	}
	*w = wholeNumber(f)
	return nil
}

// lenient decodes a T as [strictjson.Decode] does, but ignores unknown fields.
type lenient[T any] struct{ v T }

// UnmarshalJSONFrom implements [jsonv2.UnmarshalerFrom].
func (l *lenient[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonv2.UnmarshalDecode(d, &l.v, jsonv2.RejectUnknownMembers(false))
}

// checkShape refuses a message that is too big, too deep, malformed, or no object.
func checkShape(raw []byte) error {
	if len(raw) > MaxMessageBytes {
		return agent.FieldErrorf(agent.CodeOverflow, "", "the message is %d bytes, at most %d", len(raw), MaxMessageBytes)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if d.PeekKind() != '{' {
		return strictjson.Decode(raw, &struct{}{}) // returns the error
	}
	for d.StackDepth() >= 0 {
		if d.StackDepth() > MaxDepth {
			return agent.FieldErrorf(agent.CodeOverflow, strictjson.Path(string(d.StackPointer())), "is nested deeper than %d", MaxDepth)
		}
		if _, err := d.ReadToken(); err != nil {
			return nil //nolint:nilerr // strictjson.Decode returns the error with the field
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	return nil
}

// parseTime parses RFC 3339, also without a zone, as Python's isoformat writes UTC. It returns the zero time for anything else.
func parseTime(raw jsontext.Value) time.Time {
	var s string
	if raw.Kind() != '"' || json.Unmarshal(raw, &s) != nil {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// normalize brings raw values into one form.
func (j *Job) normalize() error {
	var err error
	c := &j.Context
	if c.WorkflowState, err = compact("context.workflow_state", c.WorkflowState); err != nil {
		return err
	}
	if len(c.WorkflowState) > 0 && c.WorkflowState[0] != '{' {
		return agent.Invalid("context.workflow_state", "want an object")
	}
	if len(c.PreviousResults) == 0 {
		c.PreviousResults = nil
	}
	for i := range c.PreviousResults {
		p := &c.PreviousResults[i]
		if p.Preview, err = compact(fmt.Sprintf("context.previous_results[%d].preview", i), p.Preview); err != nil {
			return err
		}
	}
	return nil
}

// compact removes white space, and returns nil for null. It refuses numbers beyond float64, which later readers could not read.
func compact(field string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, agent.Invalid(field, "%w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, agent.Invalid(field, "%w", err)
	}
	return b.Bytes(), nil
}

func (j *Job) validate() error {
	if j.JobID == "" {
		return agent.Invalid("job_id", "is missing")
	}
	for _, id := range []struct{ field, value string }{
		{"job_id", j.JobID},
		{"run_id", j.RunID},
		{"node_id", j.NodeID},
		{"workflow_tag", j.WorkflowTag},
		{"workflow_owner", j.WorkflowOwner},
		{"user_id", j.UserID},
	} {
		if err := checkText(id.field, id.value, MaxIDBytes); err != nil {
			return err
		}
	}
	switch {
	case strings.TrimSpace(j.Prompt) == "":
		return agent.Invalid("prompt", "is empty")
	case len(j.Prompt) > MaxPromptBytes:
		return agent.FieldErrorf(agent.CodeOverflow, "prompt", "is %d bytes, at most %d", len(j.Prompt), MaxPromptBytes)
	case j.TimeoutSec < 1 || j.TimeoutSec > MaxTimeoutSec:
		return agent.Invalid("timeout_sec", "is %d, want 1 to %d", j.TimeoutSec, MaxTimeoutSec)
	case j.RetryCount < 0 || j.RetryCount > MaxRetryCount:
		return agent.Invalid("retry_count", "is %d, want 0 to %d", j.RetryCount, MaxRetryCount)
	}
	return j.Context.validate()
}

func (c *Context) validate() error {
	switch {
	case c.SessionID != "" && !agent.SessionID(c.SessionID).Valid():
		return agent.Invalid("context.session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case c.Agent != "" && !agent.ValidName(c.Agent):
		return agent.Invalid("context.agent", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case len(c.PreviousResults) > MaxPreviousResults:
		return agent.FieldErrorf(agent.CodeOverflow, "context.previous_results", "has %d entries, at most %d", len(c.PreviousResults), MaxPreviousResults)
	}
	for i := range c.PreviousResults {
		p, path := &c.PreviousResults[i], fmt.Sprintf("context.previous_results[%d].", i)
		if err := checkText(path+"node_id", p.NodeID, MaxIDBytes); err != nil {
			return err
		}
		if err := checkText(path+"result_ref", p.ResultRef, MaxRefBytes); err != nil {
			return err
		}
	}
	return nil
}

func checkText(field, s string, maxBytes int) error {
	if len(s) > maxBytes {
		return agent.FieldErrorf(agent.CodeOverflow, field, "is %d bytes, at most %d", len(s), maxBytes)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return agent.Invalid(field, "holds a control character")
	}
	return nil
}

// JobIDOf returns the job id of a message that [Parse] may refuse, so that the producer can be told. It ignores errors after the id.
func JobIDOf(raw []byte) (string, bool) {
	raw = bytes.TrimPrefix(raw, []byte(bom))
	d := jsontext.NewDecoder(bytes.NewBuffer(raw[:min(len(raw), 4*MaxMessageBytes)]), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return "", false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", false
		}
		if name.String() != "job_id" {
			if err := d.SkipValue(); err != nil {
				return "", false
			}
			continue
		}
		id, err := d.ReadToken()
		if err != nil || id.Kind() != '"' || id.String() == "" || checkText("", id.String(), MaxIDBytes) != nil {
			return "", false
		}
		return id.String(), true
	}
	return "", false
}
