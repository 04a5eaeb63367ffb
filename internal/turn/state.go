package turn

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Version is the version of the rules in this package, recorded by BeginTurn.
const Version = VersionPlan

const (
	// VersionLooks is the first version whose turns look into the store for decisions while they wait for a person.
	VersionLooks = 2
	// VersionPlan is the first version whose turns run RouteTurn and LoadPlan after BeginTurn.
	VersionPlan = 3
)

// hardModelCalls and hardToolCalls end a turn whose limits are all off; no useful turn comes near them.
const (
	hardModelCalls = 1_000
	hardToolCalls  = 10_000
)

// State is a turn between two actions.
type State struct {
	Version    int              `json:"version"`
	Limits     agent.Limits     `json:"limits"`
	Rules      agent.Rules      `json:"rules,omitzero"`
	Prepare    bool             `json:"prepare,omitempty"` // the preparation is still to come
	Step       int              `json:"step"`              // of the last model call, 0 before the first
	ModelCalls int              `json:"model_calls"`       // requests to the provider
	ToolCalls  int              `json:"tool_calls"`
	Usage      agent.Usage      `json:"usage"`
	ElapsedMS  int64            `json:"elapsed_ms"` // active time, human pauses not counted
	Model      string           `json:"model,omitempty"`
	Calls      []Call           `json:"calls,omitempty"` // of the current step; empty while the model is next
	Cancelled  bool             `json:"cancelled,omitempty"`
	Stop       agent.StopReason `json:"stop,omitempty"` // set once the turn is over
	Failure    *agent.Failure   `json:"failure,omitempty"`
	Closing    string           `json:"closing,omitempty"`   // what is said at the end in the model's place
	Missed     int              `json:"missed,omitempty"`    // replies that missed the output schema
	Asked      []Asked          `json:"asked,omitempty"`     // per rule of Rules.ToolCalls
	PauseMS    int64            `json:"pause_ms,omitempty"`  // before the model is asked again
	PausedMS   int64            `json:"paused_ms,omitempty"` // how long the turn has paused for its next answer
}

// Asked counts the calls that one rule bounds.
type Asked struct {
	Run     int `json:"run"`     // asked for in this turn, refused ones included
	Allowed int `json:"allowed"` // of them those that ran
}

// New starts a turn under the given limits and rules.
func New(version int, limits agent.Limits, rules agent.Rules) State {
	s := State{Version: version, Limits: limits, Rules: rules}
	if n := len(rules.ToolCalls); n > 0 {
		s.Asked = make([]Asked, n)
	}
	return s
}

// Preparing returns a turn that prepares before its first model call.
func (s State) Preparing(prepare bool) State {
	s.Prepare = prepare
	return s
}

// Next says what to do now. It never changes anything: asked twice, it answers twice the same.
func (s State) Next() Action {
	switch {
	case s.Cancelled:
		return Action{Kind: Finish, Status: agent.TurnCancelled, Stop: agent.StopCancelled}
	case s.Stop != "":
		return s.finish()
	case s.PauseMS > 0:
		return Action{Kind: Pause, Step: s.Step + 1, DelayMS: s.PauseMS}
	case len(s.Calls) > 0:
		return s.nextForCalls()
	}
	if over := s.exhausted(); over.Stop != "" {
		return over.finish()
	}
	if s.Prepare {
		return Action{Kind: Retrieve}
	}
	return Action{Kind: CallModel, Step: s.Step + 1}
}

func (s State) finish() Action {
	a := Action{Kind: Finish, Status: s.status(), Stop: s.Stop, Failure: s.Failure, Closing: s.Closing}
	if a.Closing != "" {
		a.Step = s.Step + 1 // the closing words are a reply of their own
	}
	return a
}

// nextForCalls waits for every decision of the step before it runs anything, as LangChain's human_in_the_loop does, and then for the
// results that the caller provides.
func (s State) nextForCalls() Action {
	if gated := s.calls(Gated); len(gated) > 0 {
		return Action{Kind: Await, Step: s.Step, Calls: gated}
	}
	if atClient := s.calls(AtClient); len(atClient) > 0 {
		return Action{Kind: Await, Step: s.Step, Calls: atClient, Client: true}
	}
	if s.over(s.Limits.WallTimeSec*1000, s.ElapsedMS) {
		return s.stopAt(agent.StopWallTime).finish()
	}
	return Action{Kind: CallTools, Step: s.Step, Calls: s.calls(Runnable)}
}

// BudgetMS is how much active time the turn has left, 0 when there is no bound; at least 1 while the turn may act.
func (s State) BudgetMS() int64 {
	if s.Limits.WallTimeSec == 0 {
		return 0
	}
	return max(s.Limits.WallTimeSec*1000-s.ElapsedMS, 1)
}

// AfterModel takes the verdict of the model call of step Step+1.
func (s State) AfterModel(v agent.ModelVerdict) State {
	if s.retries(v.Failure, v.RetryInMS) {
		return s.pause(v.Usage, v.RetryInMS)
	}
	s.PausedMS = 0
	s.Step++
	s.ModelCalls += max(1, v.Requests)
	s.Usage = s.Usage.Add(v.Usage)
	if v.Model != "" {
		s.Model = v.Model
	}
	switch {
	case v.Cancelled:
		s.Cancelled = true
		return s
	case v.OutOfTime:
		return s.stopAt(agent.StopWallTime)
	case v.Failure != nil:
		return s.failedCall(v.Failure)
	}
	switch v.Jump {
	case agent.JumpEnd:
		s.Stop = agent.StopEndTurn
		return s
	case agent.JumpModel:
		return s
	case agent.JumpNone, agent.JumpTools, "":
	}
	if v.Unstructured != "" {
		if s.Missed++; s.Missed > s.Rules.StructuredTries {
			return s.Fail(agent.StopStructured, &agent.Failure{
				Type: string(agent.StopStructured), Message: "no reply satisfied the output schema: " + v.Unstructured,
			})
		}
		return s.withCalls(v.Calls)
	}
	if len(v.Calls) == 0 {
		s.Stop = answeredStop(v.FinishReason)
		return s
	}
	return s.withCalls(v.Calls)
}

// retries reports whether what failed is done again after a pause: if it may be, and the turn has the time.
func (s State) retries(f *agent.Failure, pauseMS int64) bool {
	return pauseMS > 0 && f != nil && !s.over(s.Limits.WallTimeSec*1000, s.ElapsedMS+pauseMS)
}

// pause has the turn wait before it does the same again. Requests that nobody answered do not count as model calls.
func (s State) pause(used agent.Usage, pauseMS int64) State {
	s.Usage = s.Usage.Add(used)
	s.PauseMS, s.PausedMS = pauseMS, s.PausedMS+pauseMS
	return s
}

// AfterPause goes on after a Pause.
func (s State) AfterPause() State {
	s.PauseMS = 0
	return s
}

// answeredStop returns why a turn with an answer ended.
func answeredStop(finish agent.FinishReason) agent.StopReason {
	switch finish {
	case agent.FinishLength:
		return agent.StopMaxTokens
	case agent.FinishContentFilter:
		return agent.StopFiltered
	default:
		return agent.StopEndTurn
	}
}

// failedCall ends the turn with the failure of a model call: the provider's, or that a tool call needs an approval that nobody is waited for.
func (s State) failedCall(f *agent.Failure) State {
	stop := agent.StopModelError
	if f.Type == string(agent.StopApprovalRequired) {
		stop = agent.StopApprovalRequired
	}
	return s.Fail(stop, f)
}

// withCalls takes on the calls of a step, or ends the turn when they are more than a limit allows.
func (s State) withCalls(verdicts []agent.CallVerdict) State {
	if len(verdicts) == 0 {
		return s
	}
	s.ToolCalls += len(verdicts)
	if s.ToolCalls > hardToolCalls || (s.Limits.ToolCalls > 0 && s.ToolCalls > s.Limits.ToolCalls) {
		return s.stopAt(agent.StopToolCalls)
	}
	calls := make([]Call, 0, len(verdicts))
	for _, v := range verdicts {
		c := Call{ID: v.ID, Name: v.Name, Summary: v.Summary, Local: v.Local, Rule: v.Rule, Child: v.Child, Client: v.Client, Progress: Runnable}
		switch v.Gate {
		case agent.GateApproval:
			c.Progress = Gated
		case agent.GateDenied:
			c.refuse(v.Rule)
		case agent.GateNone, "":
			if c.Client {
				c.Progress = AtClient
			}
		}
		calls = append(calls, c)
	}
	s = s.bounded(calls)
	if s.Stop == "" {
		s.Calls = calls
	}
	return s
}

// refuse answers a call instead of running it, which costs nothing.
func (c *Call) refuse(why string) {
	c.Progress, c.Local, c.Child, c.Client, c.Rule, c.Refused = Runnable, true, false, false, "", why
}

// AfterTools takes the verdicts of the calls that the last CallTools named. A call without a verdict counts as answered: the
// driver has had its chance, and the turn must end.
func (s State) AfterTools(verdicts []agent.ToolVerdict) State {
	for _, v := range verdicts {
		if v.Cancelled {
			s.Cancelled = true
		}
		s.Usage = s.Usage.Add(v.Usage)
		s.ModelCalls += v.ModelCalls
		s.ToolCalls += v.ToolCalls
	}
	s.Calls = nil
	return s
}

// AfterPrepare takes the verdict of the preparation.
func (s State) AfterPrepare(v agent.PrepareVerdict) State {
	if s.retries(v.Failure, v.RetryInMS) {
		return s.pause(v.Usage, v.RetryInMS)
	}
	s.Prepare, s.PausedMS = false, 0
	s.ModelCalls += v.Requests
	s.Usage = s.Usage.Add(v.Usage)
	switch {
	case v.Cancelled:
		s.Cancelled = true
	case v.OutOfTime:
		return s.stopAt(agent.StopWallTime)
	case v.Failure != nil:
		s.Stop, s.Failure = agent.StopModelError, v.Failure
	}
	return s
}

// AfterDecision takes a judged decision. One about a call that does not wait changes nothing.
func (s State) AfterDecision(v agent.DecisionVerdict) State {
	if v.End && slices.ContainsFunc(s.Calls, func(c Call) bool { return c.ID == v.CallID && c.Progress == Gated }) {
		return s.Fail(agent.StopApprovalExpired, &agent.Failure{
			Type: string(agent.StopApprovalExpired), Message: "nobody decided approval " + v.ApprovalID + " in time",
		})
	}
	next := make([]Call, len(s.Calls))
	copy(next, s.Calls)
	for i := range next {
		if next[i].ID == v.CallID && next[i].waitsFor(v) {
			next[i].Progress = next[i].after(v)
			break
		}
	}
	s.Calls = next
	if !slices.ContainsFunc(next, func(c Call) bool { return c.Progress != Done }) {
		s.Calls = nil
	}
	return s
}

// waitsFor reports whether a call waits for a verdict: one about its approval, or one about the result that the caller provides.
func (c *Call) waitsFor(v agent.DecisionVerdict) bool {
	return (c.Progress == Gated && !v.Client) || (c.Progress == AtClient && v.Client)
}

// after is what a decision makes of a call that waits.
func (c *Call) after(v agent.DecisionVerdict) Progress {
	switch {
	case !v.Run:
		return Done
	case c.Client && c.Progress == Gated:
		return AtClient
	default:
		return Runnable
	}
}

// Cancel ends the turn at the next action.
func (s State) Cancel() State {
	s.Cancelled = true
	return s
}

// Spend adds active time in milliseconds.
func (s State) Spend(ms int64) State {
	if ms > 0 {
		s.ElapsedMS += ms
	}
	return s
}

// Fail ends the turn for a reason of the driver's.
func (s State) Fail(stop agent.StopReason, f *agent.Failure) State {
	s.Stop, s.Failure, s.Calls = stop, f, nil
	return s
}

func (s State) calls(p Progress) []Call {
	var out []Call
	for i := range s.Calls {
		if s.Calls[i].Progress == p {
			out = append(out, s.Calls[i])
		}
	}
	return out
}
