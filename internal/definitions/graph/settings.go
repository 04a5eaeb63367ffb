package graph

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// The actions of tasks.
const (
	ActionEmail    = "email"
	ActionWebhook  = "webhook"
	ActionPipeline = "pipeline"
)

// Settings are what a node's config says, by its type: exactly one is set, none for a condition.
type Settings struct {
	Email    *Email
	Webhook  *Webhook
	Pipeline *Pipeline
	Agent    *Agent
	Timer    *Timer
}

// Attempts is what tasks and agents may say of trying: zero values leave it to the runtime.
type Attempts struct {
	Retries    *Retries `json:"retries,omitempty"`
	TimeoutSec int64    `json:"timeout_sec,omitempty"` // of one attempt
}

// Retries says how often a step that failed, and may be repeated, is tried.
type Retries struct {
	MaxAttempts    int   `json:"max_attempts"` // the first included
	IntervalSec    int64 `json:"interval_sec,omitempty"`
	MaxIntervalSec int64 `json:"max_interval_sec,omitempty"`
}

// Email is the config of a task that sends mail. Subject and Body are templates; an empty Body is the runtime's to write.
type Email struct {
	Action  string    `json:"action"`
	To      Addresses `json:"to,omitempty"` // empty: the runtime's default recipient
	CC      Addresses `json:"cc,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Body    string    `json:"body,omitempty"`

	Attempts
}

// Webhook is the config of a task that sends a request.
type Webhook struct {
	Action  string            `json:"action"`
	URL     string            `json:"url"`              // a template
	Method  string            `json:"method,omitempty"` // empty: POST
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"` // a string is a template, anything else is sent as it is; absent: what came in
	Auth    string            `json:"auth,omitempty"` // the name of an auth profile
	// Repeatable says that sending it twice does no harm: an attempt of which nobody knows what became of it is repeated.
	Repeatable bool `json:"repeatable,omitempty"`

	Attempts
}

// Pipeline is the config of a task that runs the steps of execute_pipeline.
type Pipeline struct {
	Action   string            `json:"action"`
	Pipeline []json.RawMessage `json:"pipeline"`
	InputRef string            `json:"input_ref,omitempty"`

	Attempts
}

// Agent is the config of a node that asks an agent. Message and Session are templates.
type Agent struct {
	Agent        string          `json:"agent"`
	Message      string          `json:"message"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"` // a JSON Schema of an object
	Session      string          `json:"session,omitempty"`       // empty: one of its own for each visit

	Attempts
}

// Timer is the config of a node that waits.
type Timer struct {
	Duration string `json:"duration"`
}

// Wait returns the duration, 0 when it is none.
func (t *Timer) Wait() time.Duration {
	d, err := time.ParseDuration(t.Duration)
	if err != nil {
		return 0
	}
	return d
}

// Read returns what a node's config says. Its error is [agent.CodeInvalid], its Field within the node.
func Read(n *agent.WorkflowNode) (Settings, error) {
	var expressions int
	s, faults := settings("", n, &expressions)
	if len(faults) == 0 {
		return s, nil
	}
	return s, agent.Invalid(faults[0].Path, "%s", faults[0].Message)
}

// settings reads a node's config and the rest that depends on its type; path is the node's. It counts the expressions that it compiles.
func settings(path string, n *agent.WorkflowNode, expressions *int) (Settings, agent.Faults) {
	var s Settings
	r := reader{path: path, node: n, expressions: expressions}
	if n.Type != agent.WorkflowCondition && n.Expr != "" {
		r.fault("expr", "is for nodes of type %s", agent.WorkflowCondition)
	}
	if !null(n.Config) && n.Config[0] != '{' {
		r.fault("config", "want an object")
		return s, r.faults
	}
	switch n.Type {
	case agent.WorkflowTask:
		s = r.task()
	case agent.WorkflowAgent:
		s.Agent = r.agent()
	case agent.WorkflowTimer:
		s.Timer = r.timer()
	case agent.WorkflowCondition:
		r.condition()
	case "":
		r.fault("type", "is required: want one of %s", nodeTypes)
	default:
		r.fault("type", "want one of %s, got %q", nodeTypes, clip(n.Type))
	}
	return s, r.faults
}

const (
	nodeTypes = agent.WorkflowTask + ", " + agent.WorkflowAgent + ", " + agent.WorkflowCondition + ", " + agent.WorkflowTimer
	actions   = ActionEmail + ", " + ActionWebhook + ", " + ActionPipeline
)

// reader reads one node.
type reader struct {
	path   string
	node   *agent.WorkflowNode
	faults agent.Faults

	expressions *int
}

func (r *reader) fault(member, format string, args ...any) {
	path := member
	if r.path != "" {
		path = strings.TrimSuffix(r.path+"."+member, ".")
	}
	r.faults = append(r.faults, one(path, format, args...)...)
}

// decode reads the config, false when it cannot be.
func (r *reader) decode(into any) bool {
	config := r.node.Config
	if null(config) {
		config = json.RawMessage("{}")
	}
	if err := strict.Decode(config, into); err != nil {
		for _, f := range faultsOf("config", err) {
			r.fault(f.Path, "%s", f.Message)
		}
		return false
	}
	return true
}

func (r *reader) condition() {
	if r.node.Expr == "" {
		r.fault("expr", "is required")
	} else if r.affordable("expr", 1) {
		if _, err := expr.Compile(r.node.Expr); err != nil {
			r.fault("expr", "%s", err.Error())
		}
	}
	var none struct{}
	r.decode(&none)
}

func (r *reader) task() Settings {
	var s Settings
	var what struct {
		Action *string `json:"action"`
	}
	// The other members are read below; a config that is none is told of there.
	if err := json.Unmarshal(r.node.Config, &what); err != nil && !null(r.node.Config) {
		r.fault("config.action", "want a string")
		return s
	}
	switch {
	case what.Action == nil:
		r.fault("config.action", "is required: want one of %s", actions)
	case *what.Action == ActionEmail:
		s.Email = r.email()
	case *what.Action == ActionWebhook:
		s.Webhook = r.webhook()
	case *what.Action == ActionPipeline:
		s.Pipeline = r.pipeline()
	default:
		r.fault("config.action", "want one of %s, got %q", actions, clip(*what.Action))
	}
	return s
}

const maxWait = 366 * 24 * time.Hour

func (r *reader) timer() *Timer {
	t := new(Timer)
	if !r.decode(t) {
		return nil
	}
	if d, err := time.ParseDuration(t.Duration); err != nil || d < time.Second || d > maxWait {
		r.fault("config.duration", `want 1s to %s, such as "90s" or "24h", got %q`, "8784h", clip(t.Duration))
	}
	return t
}

// Bounds of attempts: what runs honour. An action's attempts and the pauses between them share the few minutes that its visit has; the turn
// of an agent may take a day.
const (
	maxAttempts = 20
	maxPause    = 60           // seconds
	maxTask     = 8 * 60       // seconds of one attempt
	maxTurn     = 24 * 60 * 60 // seconds
)

// attempts checks what is said of trying; longest bounds the time of one attempt, in seconds.
func (r *reader) attempts(a *Attempts, longest int64) {
	if a.TimeoutSec < 0 || a.TimeoutSec > longest {
		r.fault("config.timeout_sec", "want 1 to %d, got %d", longest, a.TimeoutSec)
	}
	if a.Retries == nil {
		return
	}
	if n := a.Retries.MaxAttempts; n < 1 || n > maxAttempts {
		r.fault("config.retries.max_attempts", "want 1 to %d, got %d", maxAttempts, n)
	}
	r.pause("interval_sec", a.Retries.IntervalSec)
	r.pause("max_interval_sec", a.Retries.MaxIntervalSec)
}

func (r *reader) pause(member string, sec int64) {
	if sec < 0 || sec > maxPause {
		r.fault("config.retries."+member, "want 1 to %d, got %d", maxPause, sec)
	}
}
