package library

import (
	"encoding/json"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// attempts are the members of a config about retries and timeouts. Zero values mean the defaults of the runtime.
type attempts struct {
	Retries    *definitions.Retries `json:"retries,omitempty"`
	TimeoutSec int64                `json:"timeout_sec,omitempty"` // of one attempt
}

// email is the config of a task that sends mail. Subject and Body are templates. If Body is empty, the runtime sends the input.
type email struct {
	Action  string                `json:"action"`
	To      definitions.Addresses `json:"to,omitempty"` // empty: the runtime's default recipient
	CC      definitions.Addresses `json:"cc,omitempty"`
	Subject string                `json:"subject,omitempty"`
	Body    string                `json:"body,omitempty"`

	attempts
}

// webhook is the config of a task that sends an HTTP request.
type webhook struct {
	Action  string            `json:"action"`
	URL     string            `json:"url"`              // a template
	Method  string            `json:"method,omitempty"` // empty: POST
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"` // a string is a template, other JSON is sent unchanged; default: the input
	Auth    string            `json:"auth,omitempty"` // the name of an auth profile
	// Repeatable means that the request may safely be sent twice, so an attempt with an unknown outcome is repeated.
	Repeatable bool `json:"repeatable,omitempty"`

	attempts
}

// pipeline is the config of a task that runs the steps of execute_pipeline.
type pipeline struct {
	Action   string            `json:"action"`
	Pipeline []json.RawMessage `json:"pipeline"`
	InputRef string            `json:"input_ref,omitempty"`

	attempts
}

// agentTurn is the config of a node that runs a turn of an agent. Message and Session are templates.
type agentTurn struct {
	Agent        string          `json:"agent"`
	Message      string          `json:"message"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"` // a JSON Schema of an object
	Session      string          `json:"session,omitempty"`       // empty: a new session for each visit

	attempts
}

// timer is the config of a node that waits.
type timer struct {
	Duration string `json:"duration"`
}

// checkConfig checks the members of a node that depend on its type. path is the path of the node.
func (c *checker) checkConfig(path string, n *agent.WorkflowNode) {
	r := configReader{checker: c, path: path, node: n}
	if n.Type != agent.WorkflowCondition && n.Expr != "" {
		r.addFault("expr", "is for nodes of type %s", agent.WorkflowCondition)
	}
	if !isNull(n.Config) && n.Config[0] != '{' {
		r.addFault("config", "want an object")
		return
	}
	switch n.Type {
	case agent.WorkflowTask:
		r.checkTask()
	case agent.WorkflowAgent:
		r.checkAgent()
	case agent.WorkflowTimer:
		r.checkTimer()
	case agent.WorkflowCondition:
		r.checkCondition()
	case "":
		r.addFault("type", "is required: want one of %s", nodeTypeNames)
	default:
		r.addFault("type", "want one of %s, got %q", nodeTypeNames, clip.Bytes(n.Type, maxQuoted))
	}
}

const (
	nodeTypeNames = agent.WorkflowTask + ", " + agent.WorkflowAgent + ", " + agent.WorkflowCondition + ", " + agent.WorkflowTimer
	actionNames   = definitions.ActionEmail + ", " + definitions.ActionWebhook + ", " + definitions.ActionPipeline
)

// configReader decodes and checks the config of one node.
type configReader struct {
	checker *checker
	path    string // of the node
	node    *agent.WorkflowNode
}

// addFault adds a fault of a member of the node.
func (r *configReader) addFault(member, format string, args ...any) {
	r.checker.addFault(r.path+"."+member, format, args...)
}

// decodeConfig decodes the config into a pointer. It returns false after adding a fault.
func (r *configReader) decodeConfig(into any) bool {
	config := r.node.Config
	if isNull(config) {
		config = json.RawMessage("{}")
	}
	if err := strictjson.Decode(config, into); err != nil {
		for _, f := range decodeFaults("config", err) {
			r.addFault(f.Path, "%s", f.Message)
		}
		return false
	}
	return true
}

func (r *configReader) checkCondition() {
	if r.node.Expr == "" {
		r.addFault("expr", "is required")
	} else if r.countExpressions("expr", 1) {
		if _, err := expr.Compile(r.node.Expr); err != nil {
			r.addFault("expr", "%s", err.Error())
		}
	}
	var none struct{}
	r.decodeConfig(&none)
}

func (r *configReader) checkTask() {
	var action struct {
		Action *string `json:"action"`
	}
	// The other members are checked when the config of the action is decoded.
	if err := json.Unmarshal(r.node.Config, &action); err != nil && !isNull(r.node.Config) {
		r.addFault("config.action", "want a string")
		return
	}
	switch {
	case action.Action == nil:
		r.addFault("config.action", "is required: want one of %s", actionNames)
	case *action.Action == definitions.ActionEmail:
		r.checkEmail()
	case *action.Action == definitions.ActionWebhook:
		r.checkWebhook()
	case *action.Action == definitions.ActionPipeline:
		r.checkPipeline()
	default:
		r.addFault("config.action", "want one of %s, got %q", actionNames, clip.Bytes(*action.Action, maxQuoted))
	}
}

const maxWait = 366 * 24 * time.Hour

func (r *configReader) checkTimer() {
	var t timer
	if !r.decodeConfig(&t) {
		return
	}
	if d, err := time.ParseDuration(t.Duration); err != nil || d < time.Second || d > maxWait {
		r.addFault("config.duration", `want 1s to %s, such as "90s" or "24h", got %q`, "8784h", clip.Bytes(t.Duration, maxQuoted))
	}
}

// Bounds of attempts. All attempts of a task and the pauses between them must fit in the few minutes of its visit. The turn of an agent may take a
// day.
const (
	maxNodeAttempts = 20
	maxPauseSec     = 60           // seconds
	maxTaskSec      = 8 * 60       // seconds of one attempt
	maxTurnSec      = 24 * 60 * 60 // seconds
)

// checkAttempts checks retries and timeout. maxSec is the maximum timeout of one attempt in seconds.
func (r *configReader) checkAttempts(a *attempts, maxSec int64) {
	if a.TimeoutSec < 0 || a.TimeoutSec > maxSec {
		r.addFault("config.timeout_sec", "want 1 to %d, got %d", maxSec, a.TimeoutSec)
	}
	if a.Retries == nil {
		return
	}
	if n := a.Retries.MaxAttempts; n < 1 || n > maxNodeAttempts {
		r.addFault("config.retries.max_attempts", "want 1 to %d, got %d", maxNodeAttempts, n)
	}
	r.checkPause("interval_sec", a.Retries.IntervalSec)
	r.checkPause("max_interval_sec", a.Retries.MaxIntervalSec)
}

func (r *configReader) checkPause(member string, sec int64) {
	if sec < 0 || sec > maxPauseSec {
		r.addFault("config.retries."+member, "want 1 to %d, got %d", maxPauseSec, sec)
	}
}
