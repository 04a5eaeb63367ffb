package workflows

import "github.com/turnstone-run/turnstone/agent"

// StepResult says how a step of an [IntelligentProcess] ended.
type StepResult struct {
	Name      string       `json:"name"`
	Status    string       `json:"status"` // completed, failed, cancelled, rejected
	TurnID    agent.TurnID `json:"turn_id"`
	ResultRef string       `json:"result_ref"`
	Usage     agent.Usage  `json:"usage"` // of the last attempt
	Answer    *Answer      `json:"answer,omitempty"`
}

// setOutput copies the output of a turn.
func (s *StepResult) setOutput(out *agent.AgentStepOutput) {
	s.TurnID, s.Status, s.ResultRef, s.Usage = out.TurnID, string(out.Status), out.ResultRef, out.Usage
}

// IntelligentProcessResult is what an [IntelligentProcess] returns. Steps that were not reached are left out.
type IntelligentProcessResult struct {
	Status string         `json:"status"` // completed, failed, cancelled, rejected
	Steps  []StepResult   `json:"steps"`
	Usage  agent.Usage    `json:"usage"`
	Error  *agent.Failure `json:"error"`
}

func (r *intelligentRun) result() IntelligentProcessResult {
	out := IntelligentProcessResult{Status: r.status, Steps: r.done, Error: r.failure}
	for i := range r.done {
		out.Usage = out.Usage.Add(r.done[i].Usage)
	}
	if out.Steps == nil {
		out.Steps = []StepResult{}
	}
	return out
}

// IntelligentProcessView answers an intelligent process's query "state".
type IntelligentProcessView struct {
	ProcessView

	Step  string       `json:"step"` // at work; empty between two
	Done  []StepResult `json:"done"`
	Total int          `json:"total"`
}

func (r *intelligentRun) state() IntelligentProcessView {
	v := IntelligentProcessView{ProcessView: r.View(), Step: r.current, Done: r.result().Steps, Total: len(r.in.Steps)}
	if v.Status == "idle" {
		v.Status = r.status
	}
	return v
}
