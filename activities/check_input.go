package activities

import (
	"encoding/json"

	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// CheckInputResult is the result of an activity that checks the input of a workflow. It has no refusal if the input is valid.
type CheckInputResult struct {
	Refusal *agent.Failure `json:"refusal,omitempty"`
}

// checkInput decodes the raw input of a workflow strictly and checks it. The refusal of a missing input shows example.
func checkInput(raw converter.RawValue, in interface{ Check() error }, example string) (CheckInputResult, error) {
	var err error
	if p := raw.Payload(); p == nil || len(p.GetData()) == 0 {
		err = agent.Invalid("", "the workflow needs one argument, %s", example)
	} else if err = strictjson.Decode(p.GetData(), in); err == nil {
		err = in.Check()
	}
	return CheckInputResult{Refusal: agent.FailureOf(err)}, nil
}

// UpdateInput is the input of an update. It decodes leniently, as every payload of a workflow, and keeps the error of a strict decoder, with which
// the update's validator refuses the update before it is in history. Validators do not run in replay.
type UpdateInput[T any] struct {
	Value T

	fault error
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *UpdateInput[T]) UnmarshalJSON(data []byte) error {
	u.fault = strictjson.Decode(data, new(T))
	if err := json.Unmarshal(data, &u.Value); u.fault == nil {
		return err
	}
	return nil
}

// Check returns the error of the strict decoder; it names the field.
func (u *UpdateInput[T]) Check() error { return u.fault }
