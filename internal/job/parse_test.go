package job_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return raw
}

func TestTheSeedsJob(t *testing.T) {
	j, err := job.Parse(golden(t, "seed_job.json"))
	require.NoError(t, err)
	require.Equal(t, job.Job{
		Version: "1.0", JobID: "550e8400-e29b-41d4-a716-446655440000", RunID: "run-2024-001", NodeID: "agent_analyze_data",
		WorkflowTag: "main", WorkflowOwner: "sdutt", UserID: "sdutt",
		Prompt: "fetch flight prices from NYC to LAX, sort by price, show cheapest 3",
		Context: job.Context{
			PreviousResults: []job.PreviousResult{
				{NodeID: "fetch_data", ResultRef: "cas://sha256:abc123...", Preview: json.RawMessage(`{"count":150}`)},
			},
			WorkflowState: json.RawMessage(`{"current_step":5,"total_steps":10}`), SessionID: "sess-xyz789",
		},
		TimeoutSec: 300, CreatedAt: time.Date(2024, 10, 12, 10, 30, 0, 0, time.UTC),
	}, j)
	again, err := j.Encode()
	require.NoError(t, err)
	require.JSONEq(t, string(golden(t, "seed_job.json")), string(again))
}

func TestTheSeedsSmallestJob(t *testing.T) {
	j, err := job.Parse(golden(t, "seed_minimal.json"))
	require.NoError(t, err)
	require.Equal(t, job.Job{
		Version: "1.0", JobID: "test-job-123", Prompt: "fetch flights, sort by price, top 3",
		Context: job.Context{SessionID: "test-sess"}, TimeoutSec: 300,
	}, j)
}

// minimal is a message with more fields.
func minimal(more string) string { return `{"version":"1.0","job_id":"j","prompt":"p"` + more + `}` }

func TestParseAccepts(t *testing.T) {
	usual := job.Job{Version: "1.0", JobID: "j", Prompt: "p", TimeoutSec: 300}
	with := func(change func(*job.Job)) job.Job {
		j := usual
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		raw  string
		want job.Job
	}{
		"no more than it must have": {minimal(""), usual},
		"a later minor version":     {`{"version":"1.27","job_id":"j","prompt":"p"}`, with(func(j *job.Job) { j.Version = "1.27" })},
		"a patch version":           {`{"version":"1.0.3","job_id":"j","prompt":"p"}`, with(func(j *job.Job) { j.Version = "1.0.3" })},
		"only the major version":    {`{"version":"1","job_id":"j","prompt":"p"}`, with(func(j *job.Job) { j.Version = "1" })},
		"unknown fields": {minimal(`,"priority":{"a":[1]},"context":{"locale":"de","previous_results":[{"node_id":"n","etag":7}]}`), with(func(j *job.Job) {
			j.Context.PreviousResults = []job.PreviousResult{{NodeID: "n"}}
		})},
		"nulls": {
			minimal(`,"run_id":null,"timeout_sec":null,"created_at":null,"context":{"workflow_state":null,"previous_results":[{"preview":null}]}`),
			with(func(j *job.Job) { j.Context.PreviousResults = []job.PreviousResult{{}} }),
		},
		"no results":             {minimal(`,"context":{"previous_results":[]}`), usual},
		"no context":             {minimal(`,"context":null`), usual},
		"the shortest timeout":   {minimal(`,"timeout_sec":1`), with(func(j *job.Job) { j.TimeoutSec = 1 })},
		"the longest timeout":    {minimal(`,"timeout_sec":86400`), with(func(j *job.Job) { j.TimeoutSec = 86400 })},
		"a retry":                {minimal(`,"retry_count":100`), with(func(j *job.Job) { j.RetryCount = 100 })},
		"an agent":               {minimal(`,"context":{"agent":"analyst"}`), with(func(j *job.Job) { j.Context.Agent = "analyst" })},
		"an id of many bytes":    {`{"version":"1.0","prompt":"p","job_id":"` + strings.Repeat("é", 128) + `"}`, with(func(j *job.Job) { j.JobID = strings.Repeat("é", 128) })},
		"a time of another zone": {minimal(`,"created_at":"2024-10-12T12:30:00.5+02:00"`), with(func(j *job.Job) { j.CreatedAt = time.Date(2024, 10, 12, 10, 30, 0, 5e8, time.UTC) })},
		"a time as Python's":     {minimal(`,"created_at":"2024-10-12T10:30:00.123456"`), with(func(j *job.Job) { j.CreatedAt = time.Date(2024, 10, 12, 10, 30, 0, 123456e3, time.UTC) })},
		"a time in words":        {minimal(`,"created_at":"yesterday"`), usual},
		"a time of no year":      {minimal(`,"created_at":"9999-12-31T23:59:59-12:00"`), usual},
		"an epoch":               {minimal(`,"created_at":1728729000.25`), usual},
		"an object as time":      {minimal(`,"created_at":{"$date":1728729000}`), usual},
		"floats":                 {minimal(`,"timeout_sec":120.0,"retry_count":2.0`), with(func(j *job.Job) { j.TimeoutSec, j.RetryCount = 120, 2 })},
		"an exponent":            {minimal(`,"timeout_sec":1.2e2`), with(func(j *job.Job) { j.TimeoutSec = 120 })},
		"no retry":               {minimal(`,"retry_count":null`), usual},
		"a byte order mark":      {"\xef\xbb\xbf" + minimal(""), usual},
		"the largest prompt": {
			`{"version":"1.0","job_id":"j","prompt":"` + strings.Repeat("p", job.MaxPromptBytes) + `"}`,
			with(func(j *job.Job) { j.Prompt = strings.Repeat("p", job.MaxPromptBytes) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := job.Parse([]byte(c.raw))
			require.NoError(t, err)
			require.Equal(t, c.want, j)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"node_id":"n"},`, n), ",") }
	for name, c := range map[string]struct {
		raw     string
		field   string
		message string
	}{
		"version 2":              {`{"version":"2.0","job_id":7,"prompt":[]}`, "version", `"2.0" is not spoken here: this service reads 1.x`},
		"version 10":             {`{"version":"10.0","job_id":"j","prompt":"p"}`, "version", "reads 1.x"},
		"no version":             {`{"job_id":"j","prompt":"p"}`, "version", "is missing"},
		"a malformed version":    {`{"version":"1.x","job_id":"j","prompt":"p"}`, "version", "reads 1.x"},
		"a number as version":    {`{"version":1.0,"job_id":"j","prompt":"p"}`, "version", "want a string, got a number"},
		"a version, spaced":      {`{"version":" 1.0","job_id":"j","prompt":"p"}`, "version", "reads 1.x"},
		"no job id":              {`{"version":"1.0","prompt":"p"}`, "job_id", "is missing"},
		"a number as job id":     {`{"version":"1.0","job_id":7,"prompt":"p"}`, "job_id", "want a string, got a number"},
		"no prompt":              {`{"version":"1.0","job_id":"j"}`, "prompt", "is empty"},
		"a blank prompt":         {`{"version":"1.0","job_id":"j","prompt":" \n"}`, "prompt", "is empty"},
		"a list as prompt":       {`{"version":"1.0","job_id":"j","prompt":["p"]}`, "prompt", "want a string, got an array"},
		"a job id twice":         {minimal(`,"job_id":"k"`), "job_id", "is given twice"},
		"an unknown field twice": {minimal(`,"x":{"y":1,"y":2}`), "x.y", "is given twice"},
		"a text as timeout":      {minimal(`,"timeout_sec":"300"`), "timeout_sec", "want a whole number, got a string"},
		"a fraction as timeout":  {minimal(`,"timeout_sec":1.5`), "timeout_sec", "want a whole number"},
		"no time":                {minimal(`,"timeout_sec":0`), "timeout_sec", "is 0, want 1 to 86400"},
		"too much time":          {minimal(`,"timeout_sec":86401`), "timeout_sec", "is 86401, want 1 to 86400"},
		"a negative retry":       {minimal(`,"retry_count":-1`), "retry_count", "is -1, want 0 to 100"},
		"too many retries":       {minimal(`,"retry_count":101`), "retry_count", "is 101, want 0 to 100"},
		"a list as context":      {minimal(`,"context":[]`), "context", "want an object, got an array"},
		"a number as session":    {minimal(`,"context":{"session_id":1}`), "context.session_id", "want a string, got a number"},
		"a bad session":          {minimal(`,"context":{"session_id":"a b"}`), "context.session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -"},
		"a bad agent":            {minimal(`,"context":{"agent":"a/b"}`), "context.agent", "want 1 to 128 of A-Z a-z 0-9 . _ -"},
		"a text as result":       {minimal(`,"context":{"previous_results":["x"]}`), "context.previous_results[0]", "want an object, got a string"},
		"a node of a result":     {minimal(`,"context":{"previous_results":[{},{"node_id":{}}]}`), "context.previous_results[1].node_id", "want a string, got an object"},
		"a list as state":        {minimal(`,"context":{"workflow_state":[]}`), "context.workflow_state", "want an object"},
		"a number too large":     {minimal(`,"context":{"workflow_state":{"a":1e999}}`), "context.workflow_state", "1e999"},
		"of a preview, too":      {minimal(`,"context":{"previous_results":[{"preview":-1e400}]}`), "context.previous_results[0].preview", "-1e400"},
		"a fraction as retry":    {minimal(`,"retry_count":0.5`), "retry_count", "want a whole number"},
		"a huge timeout":         {minimal(`,"timeout_sec":1e999`), "timeout_sec", "want a whole number"},
		"a large timeout":        {minimal(`,"timeout_sec":1e300`), "timeout_sec", "want a whole number"},
		"an object as retry":     {minimal(`,"retry_count":{}`), "retry_count", "want a whole number, got an object"},
		"a list as timeout":      {minimal(`,"timeout_sec":[1]`), "timeout_sec", "want a whole number, got an array"},
		"a mark within":          {minimal("") + "\xef\xbb\xbf", "", "malformed JSON"},
		"a control character":    {minimal(`,"run_id":"a\u0000b"`), "run_id", "holds a control character"},
		"not an object":          {`[1]`, "", "want an object, got an array"},
		"a text":                 {`"job"`, "", "want an object, got a string"},
		"nothing":                {``, "", "malformed JSON"},
		"half a message":         {`{"version":"1.0","job_id":"j"`, "", "malformed JSON"},
		"more than a message":    {minimal("") + `{}`, "", "malformed JSON"},
		"bytes that are no text": {"{\"version\":\"1.0\",\"job_id\":\"j\",\"prompt\":\"\xff\"}", "prompt", "malformed JSON"},

		"a message too large":  {minimal(`,"x":"` + strings.Repeat("x", job.MaxMessageBytes) + `"`), "", "at most 1048576"},
		"a prompt too large":   {`{"version":"1.0","job_id":"j","prompt":"` + strings.Repeat("p", job.MaxPromptBytes+1) + `"}`, "prompt", "is 262145 bytes, at most 262144"},
		"an id too long":       {minimal(`,"node_id":"` + strings.Repeat("n", 257) + `"`), "node_id", "is 257 bytes, at most 256"},
		"a reference too long": {minimal(`,"context":{"previous_results":[{"result_ref":"` + strings.Repeat("r", 1025) + `"}]}`), "context.previous_results[0].result_ref", "at most 1024"},
		"too many results":     {minimal(`,"context":{"previous_results":[` + many(101) + `]}`), "context.previous_results", "has 101 entries, at most 100"},
		"a message too deep":   {minimal(`,"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), "x" + strings.Repeat("[0]", 63), "is nested deeper than 64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := job.Parse([]byte(c.raw))
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, e.Code)
			require.Equal(t, c.field, e.Field, "%v", err)
			require.ErrorContains(t, err, c.message)
		})
	}
	for name, n := range map[string]int{"results": 100} {
		_, err := job.Parse([]byte(minimal(`,"context":{"previous_results":[` + many(n) + `]}`)))
		require.NoError(t, err, name)
	}
	_, err := job.Parse([]byte(minimal(`,"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63))))
	require.NoError(t, err)
}

func TestJobIDOf(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want string
	}{
		"a good message":         {minimal(""), "j"},
		"another version":        {`{"version":"2.0","job_id":"j"}`, "j"},
		"wrong types around":     {`{"prompt":[{"job_id":"not me"}],"job_id":"j"}`, "j"},
		"cut off after it":       {`{"job_id":"j","prompt":"p`, "j"},
		"garbage after it":       {`{"job_id":"j"}}}}`, "j"},
		"twice":                  {`{"job_id":"j","job_id":"k"}`, "j"},
		"a byte order mark":      {"\xef\xbb\xbf" + `{"job_id":"j","prompt":7}`, "j"},
		"a huge message":         {`{"job_id":"j","x":"` + strings.Repeat("x", 8*job.MaxMessageBytes) + `"}`, "j"},
		"malformed before it":    {`{"a":tru,"job_id":"j"}`, ""},
		"too far away":           {`{"x":"` + strings.Repeat("x", 8*job.MaxMessageBytes) + `","job_id":"j"}`, ""},
		"a number":               {`{"job_id":7}`, ""},
		"empty":                  {`{"job_id":""}`, ""},
		"null":                   {`{"job_id":null}`, ""},
		"too long":               {`{"job_id":"` + strings.Repeat("j", 257) + `"}`, ""},
		"with control character": {`{"job_id":"a\nb"}`, ""},
		"not there":              {`{"a":1}`, ""},
		"no object":              {`["job_id","j"]`, ""},
		"nothing":                {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id, ok := job.JobIDOf([]byte(c.raw))
			require.Equal(t, c.want, id)
			require.Equal(t, c.want != "", ok)
		})
	}
}

func TestEncode(t *testing.T) {
	raw, err := (&job.Job{JobID: "j", Prompt: "a < b && c"}).Encode()
	require.NoError(t, err)
	require.Contains(t, string(raw), "a < b && c")
	require.JSONEq(t, `{"version":"1.0","job_id":"j","prompt":"a < b && c","timeout_sec":300,"retry_count":0}`, string(raw))

	for field, bad := range map[string]job.Job{
		"job_id":                 {Prompt: "p"},
		"prompt":                 {JobID: "j"},
		"version":                {Version: "2.0", JobID: "j", Prompt: "p"},
		"timeout_sec":            {JobID: "j", Prompt: "p", TimeoutSec: -1},
		"context.workflow_state": {JobID: "j", Prompt: "p", Context: job.Context{WorkflowState: json.RawMessage("7")}},
	} {
		_, err := bad.Encode()
		var e *agent.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
	_, err = (&job.Job{JobID: "j", Prompt: "p", Context: job.Context{WorkflowState: json.RawMessage("{")}}).Encode()
	require.ErrorContains(t, err, "encode job: ")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

func FuzzParse(f *testing.F) {
	f.Add(golden(f, "seed_job.json"))
	f.Add(golden(f, "seed_minimal.json"))
	f.Add([]byte(`{"version":"2.0"}`))
	f.Add([]byte("\xef\xbb\xbf" + minimal(`,"timeout_sec":3e1,"retry_count":-0.0,"created_at":[]`)))
	f.Add([]byte(minimal(`,"timeout_sec":1,"context":{"previous_results":[{"preview":"\u2028<"}],"workflow_state":{"a":1e3},"x":null}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		id, known := job.JobIDOf(raw)
		j, err := job.Parse(raw)
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err))
			require.Equal(t, job.Job{}, j)
			return
		}
		require.True(t, known)
		require.Equal(t, j.JobID, id)
		again, err := j.Encode()
		if err == nil {
			k, err := job.Parse(again)
			require.NoError(t, err)
			require.Equal(t, j, k)
		} else { // white space that was left out of the message is put in where encoding writes an escape for a character
			require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
		}
		e := j.Envelope("acme")
		require.NoError(t, e.Request.Validate(0))
		require.Equal(t, j.JobID, e.Request.Context.Metadata[agent.MetaJobID])

		more := withUnknown(t, bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")))
		if len(more) > job.MaxMessageBytes {
			return
		}
		k, err := job.Parse(more)
		require.NoError(t, err, "%s", more)
		require.Equal(t, j, k)
	})
}

// withUnknown adds a field that no version has to every object of the protocol, and leaves free values alone.
func withUnknown(t *testing.T, raw []byte) []byte {
	t.Helper()
	const name = "a_field_of_tomorrow"
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &top))
	add := func(m map[string]json.RawMessage) json.RawMessage {
		if m == nil {
			return json.RawMessage("null")
		}
		m[name] = json.RawMessage(`{"deep":[true]}`)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		require.NoError(t, e.Encode(m))
		return b.Bytes()
	}
	if inner, ok := top["context"]; ok {
		var c map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(inner, &c))
		if list, ok := c["previous_results"]; ok {
			var results []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(list, &results))
			parts := make([]string, len(results))
			for i := range results {
				parts[i] = string(add(results[i]))
			}
			if results != nil {
				c["previous_results"] = json.RawMessage(fmt.Sprintf("[%s]", strings.Join(parts, ",")))
			}
		}
		top["context"] = add(c)
	}
	return add(top)
}
