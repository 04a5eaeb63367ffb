package turn

import "github.com/turnstone-run/turnstone/agent"

// Kind is what an [Action] asks the driver to do.
type Kind int

// The kinds of action.
const (
	CallModel Kind = iota + 1 // call the model for Step, then AfterModel
	CallTools                 // run Calls in parallel, collect in order, then AfterTools
	Await                     // wait until somebody decides one of Calls, or provides its result, then AfterDecision
	Finish                    // store the turn as Status with Stop, Failure and Closing
	Retrieve                  // prepare the turn: classify, reformulate, search; then AfterPrepare
	Pause                     // the model's provider is away: wait for DelayMS, then AfterPause
)

// Action is the one thing to do next.
type Action struct {
	Kind    Kind
	Step    int    // CallModel, CallTools, Await, Pause; Finish with Closing: that these words are
	Calls   []Call // CallTools: to run; Await: undecided
	DelayMS int64  // Pause
	Client  bool   // Await: Calls run at the caller, who provides their results
	Status  agent.TurnStatus
	Stop    agent.StopReason
	Failure *agent.Failure
	Closing string // what the turn says at its end in the model's place; empty: nothing
}

// Progress is how far one tool call has come.
type Progress int

// The progress of a call. A gated one starts as Gated, one that the caller runs as AtClient, any other as Runnable. A gated one that the
// caller runs is AtClient when it has been approved.
const (
	Gated Progress = iota + 1
	Runnable
	Done
	AtClient
)

// Call is one tool call of the current step.
type Call struct {
	ID       agent.CallID `json:"id"`
	Name     string       `json:"name"`
	Summary  string       `json:"summary,omitempty"`
	Local    bool         `json:"local,omitempty"`
	Rule     string       `json:"rule,omitempty"`
	Child    bool         `json:"child,omitempty"`   // a turn of another agent
	Client   bool         `json:"client,omitempty"`  // it runs at the caller
	Refused  string       `json:"refused,omitempty"` // it does not run: what the model is told instead
	Progress Progress     `json:"progress"`
}
